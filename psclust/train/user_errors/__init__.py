"""TensorFlow's errors in a user's function, while its graph is built (`build_errors`) and while it
runs (`step_errors`), as one sentence with the line in that function.

Exceptions that the user's own code raises pass unchanged.
"""
