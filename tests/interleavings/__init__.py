"""Requests at the same moment against the real active controller, in every order that a seed can think of."""
