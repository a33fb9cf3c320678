"""The active controller's decisions: a request and the image in, records and a reply out.

Each module answers one family of requests. None of them changes anything: what they decide is records, which the
node appends; the reply leaves when these are committed.
"""
