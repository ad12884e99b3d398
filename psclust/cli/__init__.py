"""The command line: main.py finds the verb, verbs/ has a module for each, output.py prints."""
