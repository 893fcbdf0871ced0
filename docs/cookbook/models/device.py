# Trains device.json, the model of device-model.yaml: python device.py
# A payment of an unusual amount, from another device than the one before, is a risk. Needs xgboost 3.2 and pandas.
import numpy as np
import pandas as pd
import xgboost as xgb

rng = np.random.default_rng(24)
devices = ["phone", "tablet", "web"]
x = pd.DataFrame({
    "device": pd.Categorical(rng.choice(devices, 400), devices),
    "previous": pd.Categorical(np.where(rng.random(400) < 0.2, None, rng.choice(devices, 400)), devices),
    "amount": np.round(rng.uniform(1, 500, 400), 2).astype(np.float32),
})
changed = x.previous.notna() & (x.device.astype(object) != x.previous.astype(object))
risk = np.where(x.amount > 100, 0.4 + 0.3 * changed + 0.2 * (x.device == "web"), 0.05)
parameters = {"max_depth": 4, "eta": 0.3, "base_score": 0, "tree_method": "hist", "max_cat_to_onehot": 1, "nthread": 1}
model = xgb.train(parameters, xgb.DMatrix(x, risk, enable_categorical=True), 4)
model.save_model("device.json")
