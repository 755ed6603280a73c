"""Result files of other benchmark tools: what they said, and what can be said by them."""
