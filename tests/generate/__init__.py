"""Generated models: valid graphs grown from the recorded cases of all operators, judged by MXNet
and by our own invariants.
"""
