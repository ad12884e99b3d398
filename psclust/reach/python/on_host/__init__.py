"""What runs on hosts before psclust is there: each module alone, sent as text to a Python of theirs, with the standard library only.
Each has `answer(question, stream)`, which makes a JSON value of one; `stream` holds what follows the question."""
