"""The host: starts and stops Ray and Serve on one machine, for `muster up` and `muster down`.

No module here imports Ray at its top, but for two of `host.ray` that run later (head_node.py,
worker.py): Ray reads its flags at import, so they are set first (flags.py). Everything is
synchronous on purpose: Ray and Serve start by blocking calls, and the processes that they fork die
with the *thread* that forked them, which therefore has to be the main one.
"""
