"""Worker processes of data loaders.

    memory      blocks of memory that a worker shares with the loader's process
    transport   a batch as a pickle, and the blocks that contain its arrays
    seeds       the seeds of random numbers, for each batch
    tasks       a task as a pickle
    process     the loop of a worker
    pool        the loader's side: sends tasks, receives batches, notices dead workers

Each worker has a socket of its own and no locks in common with the others, so that a killed worker does not block
another process.
"""
