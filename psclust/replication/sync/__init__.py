"""Synchronous between-graph training: a barrier in which every worker is known by its number.

One round, from the top to the bottom. The chief is worker 0: its own replica is a participant like
the others, in its main thread, and its coordinator runs in a thread beside.

    every worker (participant)      the ps                        the chief (coordinator)

    takes its token   <------------ token queue of the worker <-- Send(tokens)
    computes a gradient
    pushes it  -------------------> accumulators
    sends its message ------------> message queue --------------> Barrier.receive
    waits for its next token                                      ... until all have
                                                                  Barrier.close_round
                                    variables += mean <---------- Update: one run
                                    step counted
                      <------------ token queue of the worker <-- and the next tokens

In a streamed round the variables are written while gradients still arrive, each when its own are
complete, and workers get it back at once:

    pushes v1, v2, ... -----------> sums of v1, v2, ... <-------- Stream: a run of its own
    copies of v1, v2, ... <-------- v1, v2, ... written, stamped
                                    step counted <--------------- Update, when it has ended

Where things are:
    what travels                 `messages`; what a barrier wants done: `actions`
    when a round closes          `barrier`, pure; with streams `stream_barrier`, with backup workers
                                 `backup_barrier`
    queues and accumulators      `barrier_channel`, `accumulators`; with streams `stamps`
    a worker's ops, its side     `participant_ops`, `participant`; `step_watch` says where it is
    the chief's ops, its side    `coordinator_ops`, `coordinator`; `stream_ops`, `stream_run`
    after a chief that died      `half_made`; with streams `stream_run.take_over`
    sums in the middle of a step `all_reduce`
"""
