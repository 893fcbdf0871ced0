def predict(values):
    return [[0.9 if amount > 100 else 0.1] for amount, hour in values.tolist()]
