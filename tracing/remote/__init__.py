"""Recording on several hosts at once, through ssh.

`ssh` is how another host is reached, `recorder` one recorder there, `fetching` gets what it
recorded, `campaign` all of them together with what is recorded here.
"""
