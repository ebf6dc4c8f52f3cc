"""Migration of a training job: save on request at a step boundary, stop, and resume elsewhere.

``signals`` has the files shared by hooks and training, ``volume`` rank 0's use of them,
``beginning`` decides whether a run resumes. ``listening`` passes a request to all workers,
``boundaries`` finds the end of a step, ``saving`` and ``loading`` write and read the file, and
``migrator`` is the API for scripts.
"""
