"""Sorts of rows of integer words as LLVM functions: networks in registers, vectorized partitions and merges.

    lanes.py      vectors of words: loads, minima and maxima, compaction of lanes
    network.py    sorts what fits the registers
    partition.py  quicksort of a row, or of the first words of its order
    merge.py      merges sorted runs, and divides a merge into pieces
    keys.py       integers with the order of elements
    top.py        selects the first words of a long row
    ties.py       orders words whose keys have equal upper halves
    rows.py       the launches: from elements to words and back

Words are signed integers of 32 or 64 bits, sorted in ascending order: keys of elements, or pairs of a key and a
position.
"""
