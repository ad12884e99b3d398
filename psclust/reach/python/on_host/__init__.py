"""Modules that run on hosts before psclust is there: each is sent as text, alone, to the host's
Python, and uses the standard library only. Each has `answer(question, stream)`, which returns a
JSON value; `stream` holds the bytes that follow the question."""
