"""CPU kernels without contractions: loop nests over the points of a kernel.

emit              the package's entry points: schedules a nest and emits it
rows              the stages of one row, and loops over reduced axes
expressions       kernel expressions at a point
common            what all points have in common, computed before the loops
transposed_tiles  tiles that are read along one axis and written along another
by_rows           kernels that a caller runs on any rows
"""
