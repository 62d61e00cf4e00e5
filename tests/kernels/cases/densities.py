"""Cases for densities. Plain data."""


def values(shape, numbers):
    return {"shape": shape, "values": numbers}


SAMPLES = values([2, 3], [0.5, 1.25, 2.0, 3.0, 0.75, 1.0])
COUNTS = values([2, 3], [0, 1, 2, 3, 5, 8])
ONE, TWO = values([2], [0.25, 1.5]), values([2], [4.0, 3.5])
SHARES = values([2, 2, 3], [0.2, 0.3, 0.5, 0.6, 0.3, 0.1, 0.1, 0.1, 0.8, 0.25, 0.25, 0.5])
CASES = [
    {"op": f"_random_pdf_{name}", "attrs": {"is_log": flag}, "inputs": list(inputs)}
    for flag in ("True", "False")
    for name, *inputs in (
        ("uniform", SAMPLES, ONE, TWO),
        ("normal", SAMPLES, ONE, TWO),
        ("gamma", SAMPLES, ONE, TWO),
        ("exponential", SAMPLES, TWO),
        ("poisson", COUNTS, TWO),
        ("negative_binomial", COUNTS, TWO, values([2], [0.4, 0.7])),
        ("generalized_negative_binomial", COUNTS, TWO, ONE),
        ("dirichlet", SHARES, values([2, 3], [1.0, 2.0, 0.5, 3.0, 1.5, 1.0])),
    )
]
