"""The supervisor process of a node, and its messages. Imports nothing: every start of a node pays
for it.
"""
