#!/usr/bin/env python3
"""Saves the model for Java's xgboost-predictor, in the binary form that XGBoost 2.1 still writes.

    convert.py MODEL.ubj MODEL.json            with XGBoost 3.2, which wrote the model
    convert.py MODEL.json MODEL.deprecated     with XGBoost 2.1, which takes the form from that name
"""
import json
import sys

import xgboost as xgb

source, target = sys.argv[1:]
booster = xgb.Booster()
booster.load_model(source)
booster.save_model(target)
if target.endswith(".json"):
    # What 2.1 does not read: a list of one base score, and the categories that no split has.
    with open(target) as f:
        model = json.load(f)
    learner = model["learner"]
    learner["learner_model_param"]["base_score"] = learner["learner_model_param"]["base_score"].strip("[]")
    learner["gradient_booster"]["model"].pop("cats", None)
    with open(target, "w") as f:
        json.dump(model, f)
