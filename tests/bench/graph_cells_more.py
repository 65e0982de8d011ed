"""More cells of the workloads of `graph_workloads`: many features, and those who come later."""

from __future__ import annotations

from tests.bench.graph_cells import FOLDS, cells

# ---------------------------------------------------------------- many more features

THIRD = cells(
    """
    # %%
    places = airports.rename(columns={"faa": "dest"})[["dest", "lat", "lon", "alt", "tz"]]
    lines = airlines[["carrier", "name"]]
    wide = trips.merge(places, on="dest", how="left").merge(lines, on="carrier", how="left")
    print(wide.shape)

    # %%
    wide["route"] = wide["origin"] + "-" + wide["dest"]
    wide["line"] = wide["carrier"] + wide["flight"].astype(str)
    wide["slot"] = wide["origin"] + wide["hour"].astype(str)
    wide["airport_day"] = wide["origin"] + wide["time_hour"].dt.strftime("%j")
    print(wide[["route", "line", "slot", "airport_day"]].nunique())

    # %%
    def bearing(row):
        east = np.radians(row["lon"] + 74) * np.cos(np.radians(row["lat"]))
        return np.degrees(np.arctan2(east, np.radians(row["lat"] - 40.7)))


    wide["bearing"] = wide.apply(bearing, axis=1)

    # %%
    plain = ["month", "day", "sched_dep_time", "distance", "lat", "lon", "alt", "tz", "bearing"]
    more = wide[plain].astype("float32")
    for key in ("route", "line", "slot"):
        numbers = wide[[key, "distance", "sched_dep_time", "sched_arr_time", "lat", "tz"]]
        found = wide[[key]].merge(aggregate_numbers(numbers, key, key), on=key, how="left")
        more = pd.concat([more, found.drop(columns=key).astype("float32")], axis=1)
    print(more.shape)

    # %%
    numbers = wide[["airport_day", "distance", "sched_dep_time", "lat", "lon", "flight"]]
    days = aggregate_numbers(numbers, "airport_day", "day")
    shares = count_kinds(wide[["airport_day", "carrier"]], "airport_day", "day")
    days = days.merge(shares, on="airport_day")
    found = wide[["airport_day"]].merge(days, on="airport_day", how="left")
    more = pd.concat([more, found.drop(columns="airport_day").astype("float32")], axis=1)
    print(more.shape)

    # %%
    # How late everybody was on the days before, at the same airport and at the same hour.
    daily = wide.pivot_table(index="time_hour", columns="origin", values="arr_delay")
    hours = pd.date_range(daily.index.min(), daily.index.max(), freq="h")
    daily = daily.reindex(hours).interpolate(limit=12)
    windows = {24: 3, 48: 6, 168: 24}
    before = {lag: daily.shift(lag).rolling(window).mean() for lag, window in windows.items()}
    echoes = pd.concat(before, axis=1)
    echoes.columns = [f"echo_{lag}_{origin}" for lag, origin in echoes.columns]
    found = wide[["time_hour"]].merge(echoes, left_on="time_hour", right_index=True, how="left")
    more = pd.concat([more, found.drop(columns="time_hour").astype("float32")], axis=1)

    # %%
    delays = wide.groupby("line")["arr_delay"].shift(10)
    rolled = delays.groupby(wide["line"]).rolling(60, min_periods=5)
    steady = pd.DataFrame(
        {
            f"line_{share}": rolled.quantile(share / 100).reset_index(level=0, drop=True)
            for share in (10, 50, 90)
        }
    ).sort_index()
    more = pd.concat([more, steady.astype("float32")], axis=1)
    print(more.shape)

    # %%
    # What is usual, and what is the worst, for all that a flight belongs to.
    for key in ("route", "slot"):
        delays = wide.groupby(key)["arr_delay"].shift(30)
        rolled = delays.groupby(wide[key]).rolling(200, min_periods=5)
        usual = pd.DataFrame(
            {
                f"{key}_{share}": rolled.quantile(share / 100).reset_index(level=0, drop=True)
                for share in (10, 50, 90)
            }
        ).sort_index()
        more = pd.concat([more, usual.astype("float32")], axis=1)
    print(more.shape)

    # %%
    # How late the flights were that are most like it, of the half-year before or after.
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import StandardScaler

    where = ["lat", "lon", "bearing", "distance", "sched_dep_time", "sched_arr_time"]
    spots = StandardScaler().fit_transform(wide[where].fillna(0))
    spring = (wide["month"] <= 6).to_numpy()
    nearest = np.empty((len(wide), 3))
    for mine in (spring, ~spring):
        near = NearestNeighbors(n_neighbors=200).fit(spots[~mine])
        found = near.kneighbors(spots[mine], return_distance=False)
        delays = wide["arr_delay"].to_numpy()[~mine][found]
        stacked = [delays[:, :20].mean(axis=1), delays.mean(axis=1), (delays > 15).mean(axis=1)]
        nearest[mine] = np.stack(stacked, axis=1)
    names = ["near_20", "near_200", "near_late"]
    more = pd.concat([more, pd.DataFrame(nearest, columns=names, dtype="float32")], axis=1)
    print(more.shape, nearest.mean(axis=0))

    # %%
    kinds = pd.get_dummies(wide[["carrier", "origin", "dest"]], dtype="float32")
    more = pd.concat([more, kinds], axis=1)

    # %%
    skies = hourly.drop(columns=["rownames", "year", "month", "day", "hour"])
    air = wide[["origin", "time_hour"]].merge(skies, on=["origin", "time_hour"], how="left")
    more = pd.concat([more, air.drop(columns=["origin", "time_hour"]).astype("float32")], axis=1)
    print(more.shape)

    # %%
    third = drop_missing(more)
    constant = third.columns[third.nunique() < 2]
    third = third.drop(columns=constant)
    print(third.shape, float(third.sum().sum()))
    """
)

THIRD_MODELS = FOLDS + cells(
    """
    # %%
    some = third.sample(frac=0.02, random_state=50)
    print("third", folds(some, target.loc[some.index], max_iter=20))
    """
)

# ---------------------------------------------------------------- those who come later

TUNED = cells(
    """
    # %%
    from sklearn.ensemble import HistGradientBoostingClassifier

    tuned = HistGradientBoostingClassifier(
        max_iter=40, learning_rate=0.15, max_leaf_nodes=24, l2_regularization=1.0, random_state=50
    )
    tuned.fit(X_train, y_train)
    print("tuned", roc_auc_score(y_test, tuned.predict_proba(X_test)[:, 1]))
    """
)

SEARCHES = cells(
    """
    # %%
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import GridSearchCV, RandomizedSearchCV

    # %%
    few = X_train.sample(frac=0.25, random_state=50)
    searched = RandomizedSearchCV(
        HistGradientBoostingClassifier(max_iter=8, random_state=50),
        {"learning_rate": [0.05, 0.1, 0.2, 0.3], "max_leaf_nodes": [8, 15, 31], "max_bins": [63]},
        n_iter=4,
        cv=2,
        scoring="roc_auc",
        random_state=50,
    )
    searched.fit(few, y_train.loc[few.index])
    print("random search", searched.best_params_, searched.best_score_)

    # %%
    grid = GridSearchCV(
        HistGradientBoostingClassifier(max_iter=8, max_bins=63, random_state=50),
        {"learning_rate": [0.1, 0.2], "l2_regularization": [0.0, 10.0]},
        cv=2,
        scoring="roc_auc",
    )
    grid.fit(few, y_train.loc[few.index])
    print("grid search", grid.best_params_, grid.best_score_)

    # %%
    best = HistGradientBoostingClassifier(max_iter=40, random_state=50, **grid.best_params_)
    best.fit(X_train, y_train)
    print("best", roc_auc_score(y_test, best.predict_proba(X_test)[:, 1]))
    """
)


def boosted_on(name: str, y: str) -> tuple[str, ...]:
    """Return the cells that train as `TUNED` does, on the features that a variable holds."""
    return (
        cells(
            f"""
        # %%
        from sklearn.model_selection import train_test_split

        X_train, X_test, y_train, y_test = train_test_split(
            {name}, {y}, train_size=0.02, test_size=0.02, random_state=50, stratify={y}
        )
        """
        )
        + TUNED
    )


BOTH = cells(
    """
    # %%
    # The first features are in the order of the file, the second in that of time.
    ours = pd.concat([second, trips["rownames"]], axis=1)
    both = scaled.assign(rownames=flown["rownames"]).merge(ours, on="rownames", suffixes=("", "_2"))
    both = both.drop(columns="rownames")
    print(both.shape, float(both.sum().sum()))
    """
)

# ---------------------------------------------------------------- a small table, many pipelines

CREDIT = cells(
    """
    # %%
    import numpy as np
    import pandas as pd
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.feature_selection import SelectKBest, mutual_info_classif
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler
    from sklearn.svm import SVC

    # %%
    credit = pd.read_csv("../data/germancredit.csv")
    is_good = (credit["creditability"] == "good").astype(int)
    asked = credit.drop(columns="creditability")
    print(asked.shape, float(is_good.mean()))

    # %%
    asked["rate"] = asked["credit_amount"] / asked["duration_in_month"]
    asked["amount_by_age"] = asked["credit_amount"] / asked["age_in_years"]
    for kind in ("purpose", "housing", "job"):
        usual = asked.groupby(kind)["credit_amount"]
        asked[f"amount_by_{kind}"] = asked["credit_amount"] / usual.transform("mean")

    # %%
    numbers = asked.select_dtypes("number").columns
    words = asked.columns.difference(numbers)
    prepare = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), numbers),
        (OneHotEncoder(sparse_output=False, handle_unknown="ignore"), words),
    )
    prepared = prepare.fit_transform(asked)
    print(prepared.shape)

    # %%
    def informative(X, y):
        return mutual_info_classif(X, y, random_state=50)


    picked = SelectKBest(informative, k=30).fit_transform(prepared, is_good)
    splits = StratifiedKFold(5, shuffle=True, random_state=50)

    # %%
    results = {}
    for C in (0.01, 0.1, 1.0, 10.0):
        results["linear", C] = cross_val_score(
            LogisticRegression(C=C, max_iter=500), picked, is_good, cv=splits, scoring="roc_auc"
        ).mean()
    for C in (0.1, 1.0, 10.0):
        for gamma in ("scale", 0.01, 0.1):
            results["svc", C, gamma] = cross_val_score(
                SVC(C=C, gamma=gamma, random_state=50),
                *(picked, is_good),
                cv=splits,
                scoring="roc_auc",
            ).mean()

    # %%
    for leaf in (1, 3, 10):
        forest = RandomForestClassifier(100, min_samples_leaf=leaf, random_state=50)
        results["forest", leaf] = cross_val_score(
            forest, prepared, is_good, cv=splits, scoring="roc_auc"
        ).mean()

    # %%
    for setup, value in sorted(results.items(), key=lambda item: -item[1]):
        print(*setup, float(value))
    """
)
