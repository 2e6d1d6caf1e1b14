"""Decide about bought capacity: what to buy, what a block's state means, when a rack must be empty.

Pure: answers of a cloud and a time come in, orders, alarms and deadlines go out.
"""
