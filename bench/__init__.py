"""Benchmarks: Resile beside other launchers, in the same run, on the same machine.

`python -m bench --help` lists the commands. Each command runs *episodes*: start a small training
job under one launcher, break something, and read from the job's own step records how long training
stood still. Episodes of different launchers alternate, so that a busy minute of the machine hurts
all of them alike; every value is kept and a launcher that never recovers is shown as such.

Modules:

    probe       the training script all launchers run; each step appends one record to a file
    timeline    pure: from records and a fault's time to seconds without training
    processes   starts the processes of a job, finds them and kills them by pid
    peers       packages and programs the other launchers need, set up outside the checkout
    launchers   one adapter per launcher: the command lines of its agents and services
    jobs        one running job: start, break, wait, end
    episodes    one fault each, from launch to result
    measures    the catalogue: which episode, which launchers, which target
    campaign    episodes of all launchers in turn, with progress
    results     the measured values, as JSON
    targets     pure: whether a median meets its target
    report      tables;  document: the same in docs;  plots, picture: images
    steady      CPU used by agents and masters while training goes on
    scale       thousands of simulated agents that form a round and lose one
"""
