"""The passes over a graph whose model is built. Each changes ops that are there already, and needs
the passes above it. `build_in_graph` and `build_between_graph` make them.

    copies      `local_copies`  the towers compute from copies of variables on their worker
                                needs: the towers, and nothing else that reads their variables
    pulls       `pulls`         what a worker reads without a copy travels once
                                needs: the copies, which are not read from a ps any more

    then the step is built, and while it is:
    in turn     `sending`, `in_turn`  gradients leave for the ps
    batch first `batch_first`   no variable changes without a batch
                                needs: the update, whose changes of state it is given
    marked      `psclust.replication.sync.half_made`, the same

    narrow      `narrow`        values travel in fewer bytes
                                needs: all of the step, and no op of psclust's own wire
    own wire    `crossings`     what goes from task to task travels by psclust's own wire
                                needs: all of the step as it is to be; after it no edge from task to
                                task may be added
"""
