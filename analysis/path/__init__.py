"""One causal path per message: where its time went, from publication to the end of its callback."""
