"""Save and load models and snapshots as files.

    model_files.py            `save` and `load` of classifiers and partials; classes from a closed list
    snapshot_folder.py        the snapshots of one learner: written whole or not at all, newest first
    platform_fingerprint.py   versions, C library and CPU on which the bits of derived floats depend

The format is `formats/snapshot_container.py`: no file holds code. A save is: check values, write a
temporary file, sync, rename, sync the folder, remove the oldest. A death between two steps leaves every
older snapshot. The folder also transfers a retrained model to the learner (`offer`, `asking`).
"""
