"""Whole models beside eager and Inductor: what tools/bench_models.py is made of."""
