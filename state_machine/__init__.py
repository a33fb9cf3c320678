"""The migration as an operator knows it: phases, gates, history rows, and the loop that looks and acts."""
