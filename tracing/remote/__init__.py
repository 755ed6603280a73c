"""Record on several hosts at once, through ssh.

`ssh` runs commands on another host, `recorder` controls a recorder there, `campaign` runs all of
them together with the recording on this host, and fetches their recordings.
"""
