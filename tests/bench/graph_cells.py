"""Cells of the workloads of `graph_workloads`, as people write them who take part in a contest.

The question is which flights from New York are more than a quarter of an hour late, as far as it
can be known a while before.  The features come in three families, as in the paper: what one table
gives (`FIRST`), what several tables joined give (`SECOND`), and much more of that, which is in
`graph_cells_more`.
"""

from __future__ import annotations

from textwrap import dedent


def cells(text: str) -> tuple[str, ...]:
    """Return the cells of a text that has them apart by ``# %%``."""
    return tuple(each.strip() + "\n" for each in dedent(text).split("# %%") if each.strip())


# ---------------------------------------------------------------- one table

FIRST = cells(
    """
    # %%
    from itertools import combinations

    import numpy as np
    import pandas as pd
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.impute import SimpleImputer
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import KFold, train_test_split
    from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, QuantileTransformer

    # %%
    flights = pd.read_csv("../data/flights.csv", index_col="rownames")
    planes = pd.read_csv("../data/planes.csv", index_col="rownames")
    print(flights.shape, planes.shape)

    # %%
    flown = flights.dropna(subset=["arr_delay"]).reset_index()
    late = (flown["arr_delay"] > 15).astype("int8")
    print("late", float(late.mean()))

    # %%
    # What is not known before a flight goes.
    hindsight = ["dep_time", "dep_delay", "arr_time", "arr_delay", "air_time"]
    known = flown.drop(columns=[*hindsight, "year"])

    # %%
    when = pd.to_datetime(known["time_hour"])
    calendar = pd.DataFrame(
        {
            "weekday": when.dt.day_of_week,
            "yearday": when.dt.day_of_year,
            "week": when.dt.isocalendar().week.astype("int64"),
            "is_weekend": (when.dt.day_of_week >= 5).astype("int64"),
            "hour_sin": np.sin(known["hour"] * 2 * np.pi / 24),
            "hour_cos": np.cos(known["hour"] * 2 * np.pi / 24),
            "day_sin": np.sin(when.dt.day_of_year * 2 * np.pi / 365),
            "day_cos": np.cos(when.dt.day_of_year * 2 * np.pi / 365),
        }
    )

    # %%
    def minutes(clock):
        return clock // 100 * 60 + clock % 100


    schedule = known[["sched_dep_time", "sched_arr_time", "distance"]].copy()
    length = minutes(known["sched_arr_time"]) - minutes(known["sched_dep_time"])
    schedule["length"] = length.where(length >= 0, length + 24 * 60)
    schedule["speed"] = schedule["distance"] / schedule["length"].clip(lower=1)
    print(schedule.describe())

    # %%
    def night_share(row):
        leaves = int(minutes(row["sched_dep_time"]))
        times = range(leaves, leaves + int(row["length"]), 30)
        return sum(at < 6 * 60 or at > 20 * 60 for at in times) / max(1, len(times))


    schedule["night"] = schedule.apply(night_share, axis=1)

    # %%
    fleet = known[["tailnum"]].merge(planes, on="tailnum", how="left")
    fleet["age"] = 2013 - fleet["year"]
    fleet["is_unknown"] = fleet["year"].isna().astype("int64")
    fleet = fleet[["age", "engines", "seats", "is_unknown"]]
    print(fleet.isna().mean())

    # %%
    imputer = SimpleImputer(strategy="median")
    fleet_full = pd.DataFrame(imputer.fit_transform(fleet), columns=fleet.columns)

    # %%
    dummies = pd.get_dummies(known[["carrier", "origin", "dest"]], dtype="float32")
    print(dummies.shape)

    # %%
    busy = pd.DataFrame(index=known.index)
    for keys in (["origin"], ["dest"], ["carrier"], ["origin", "carrier"], ["tailnum"]):
        name = "_".join(keys)
        grouped = known.groupby([*keys, "month", "day"], dropna=False)
        busy[f"{name}_day"] = grouped["flight"].transform("size")
        grouped = known.groupby([*keys, "month", "day", "hour"], dropna=False)
        busy[f"{name}_hour"] = grouped["flight"].transform("size")
        busy[f"{name}_share"] = busy[f"{name}_hour"] / busy[f"{name}_day"]

    # %%
    rhythm = pd.DataFrame(index=known.index)
    for keys in (["origin", "month", "day"], ["origin", "dest", "month"], ["carrier", "week"]):
        times = known.assign(week=calendar["week"]).groupby(keys)["sched_dep_time"]
        name = "_".join(keys)
        rhythm[f"{name}_rank"] = times.rank(pct=True)
        rhythm[f"{name}_off"] = known["sched_dep_time"] - times.transform("median")

    # %%
    # How often all that is known occurs together, by twos and threes.
    kinds = known[["carrier", "origin", "dest", "hour", "month", "tailnum"]].copy()
    kinds["weekday"] = calendar["weekday"]
    counts = pd.DataFrame(index=known.index)
    for size in (2, 3):
        for names in combinations(kinds.columns, size):
            same = kinds.groupby(list(names), dropna=False)["hour"]
            counts["_".join(["n", *names])] = same.transform("size").astype("float32")
    print(counts.shape)

    # %%
    # How a flight stands among its like.
    numbers = schedule[["sched_dep_time", "distance", "length", "speed", "night"]]
    among = {}
    for name in kinds.columns:
        same = numbers.groupby(kinds[name], dropna=False)
        among[f"{name}_off"] = (numbers - same.transform("mean")) / (same.transform("std") + 1)
        among[f"{name}_rank"] = same.rank(pct=True)
    among = pd.concat(among, axis=1).fillna(0.0).astype("float32")
    among.columns = ["_".join(names) for names in among.columns]
    print(among.shape)

    # %%
    # How much goes on at the same airport shortly before.
    def count_before(times, span):
        return np.arange(len(times)) - np.searchsorted(times, times - span)


    planned = known[["origin", "carrier", "dest", "tailnum"]].copy()
    planned["at"] = when.dt.tz_localize(None) + pd.to_timedelta(known["minute"], unit="min")
    planned = planned.sort_values("at", kind="stable")
    rush = pd.DataFrame(index=known.index)
    for keys in (["origin"], ["carrier"], ["dest"], ["origin", "carrier"], ["origin", "dest"]):
        for span in ("30min", "2h", "8h", "7D"):
            times = planned.groupby(keys)["at"]
            counted = times.transform(count_before, span=pd.Timedelta(span))
            rush["_".join([*keys, span])] = counted.astype("float32")
    print(rush.shape, float(rush.sum().sum()))

    # %%
    # How often flights of the same kind are late, without the flight itself.
    def late_share(names, weight=20):
        found = pd.Series(np.nan, known.index)
        for train, test in KFold(5, shuffle=True, random_state=50).split(known):
            told = late.iloc[train].groupby([kinds[name].iloc[train] for name in names])
            sums = told.agg(["sum", "count"])
            share = (sums["sum"] + weight * late.mean()) / (sums["count"] + weight)
            asked = kinds[list(names)].iloc[test]
            found.iloc[test] = asked.join(share.rename("share"), on=list(names))["share"]
        return found.fillna(late.mean()).astype("float32")


    shares = pd.DataFrame(
        {
            f"{'_'.join(names)}_late": late_share(names)
            for size in (1, 2, 3)
            for names in combinations(kinds.columns, size)
        }
    )
    print(shares.shape, shares.corrwith(late).nlargest(5))

    # %%
    # Which flights are alike, whatever they are called.
    even = QuantileTransformer(output_distribution="normal", random_state=50)
    evened = even.fit_transform(pd.concat([schedule, busy, rhythm], axis=1))
    centres = MiniBatchKMeans(24, n_init=3, random_state=50).fit(evened)
    alike = pd.DataFrame(centres.transform(evened), columns=[f"centre_{n}" for n in range(24)])
    alike = alike.astype("float32")
    print(alike.shape, float(alike.min(axis=1).mean()))

    # %%
    chosen = pd.concat([schedule[["length", "night"]], fleet_full[["age", "seats"]]], axis=1)
    chosen["minute_of_day"] = minutes(known["sched_dep_time"])
    polynomial = PolynomialFeatures(degree=3)
    powers = pd.DataFrame(
        polynomial.fit_transform(MinMaxScaler().fit_transform(chosen)),
        columns=polynomial.get_feature_names_out(chosen.columns),
    ).drop(columns=["1", *chosen.columns])
    print(powers.shape)

    # %%
    links = powers.corrwith(late).abs().sort_values()
    print(links.tail(10))

    # %%
    first = pd.concat(
        [calendar, schedule, fleet_full, busy, rhythm, counts, among, rush, shares, alike]
        + [powers, dummies],
        axis=1,
    )
    print(first.shape, float(first.sum().sum()))

    # %%
    scaled = pd.DataFrame(
        MinMaxScaler().fit_transform(first), columns=first.columns, dtype="float32"
    )

    # %%
    X_train, X_test, y_train, y_test = train_test_split(
        scaled, late, train_size=0.02, test_size=0.02, random_state=50, stratify=late
    )
    """
)

FIRST_MODELS = cells(
    """
    # %%
    from sklearn.linear_model import LogisticRegression

    linear = LogisticRegression(C=0.01, max_iter=300)
    linear.fit(X_train, y_train)
    print("linear", roc_auc_score(y_test, linear.predict_proba(X_test)[:, 1]))

    # %%
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(n_estimators=30, max_depth=10, random_state=50)
    forest.fit(X_train, y_train)
    print("forest", roc_auc_score(y_test, forest.predict_proba(X_test)[:, 1]))
    print(pd.Series(forest.feature_importances_, X_train.columns).nlargest(10))

    # %%
    from sklearn.ensemble import HistGradientBoostingClassifier

    boosted = HistGradientBoostingClassifier(max_iter=30, random_state=50)
    boosted.fit(X_train, y_train)
    print("boosted", roc_auc_score(y_test, boosted.predict_proba(X_test)[:, 1]))
    """
)

# ---------------------------------------------------------------- tables joined

TABLES = cells(
    """
    # %%
    import pandas as pd
    import numpy as np
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import StratifiedKFold

    # %%
    flights = pd.read_csv("../data/flights.csv", parse_dates=["time_hour"])
    weather = pd.read_csv("../data/weather.csv", parse_dates=["time_hour"])
    planes = pd.read_csv("../data/planes.csv")
    airports = pd.read_csv("../data/airports.csv")
    airlines = pd.read_csv("../data/airlines.csv")

    # %%
    trips = flights[flights["arr_delay"].notna()].sort_values(["time_hour", "rownames"])
    trips = trips.reset_index(drop=True)
    target = (trips["arr_delay"] > 15).astype("int8")
    print(trips.shape, float(target.mean()))

    # %%
    def aggregate_numbers(table, key, name):
        numbers = table.select_dtypes("number").columns.difference([key])
        found = table.groupby(key)[list(numbers)].agg(["mean", "max", "min", "std", "sum", "count"])
        found.columns = [f"{name}_{column}_{how}" for column, how in found.columns]
        return found.reset_index()


    def count_kinds(table, key, name):
        kinds = pd.get_dummies(table.select_dtypes(exclude="number").drop(columns=key))
        kinds[key] = table[key]
        found = kinds.groupby(key).agg(["sum", "mean"])
        found.columns = [f"{name}_{column}_{how}" for column, how in found.columns]
        return found.reset_index()


    def drop_missing(table, most=0.75):
        missing = table.isna().mean()
        print("dropped", list(missing[missing > most].index))
        return table[list(missing[missing <= most].index)]


    def lately(table, keys, window, lag):
        known = table.groupby(keys)["arr_delay"].shift(lag)
        rolled = known.groupby([table[key] for key in keys]).rolling(window, min_periods=2)
        levels = list(range(len(keys)))
        return rolled.agg(["mean", "std", "max"]).reset_index(level=levels, drop=True)

    # %%
    measured = ["temp", "dewp", "humid", "wind_speed", "wind_gust", "precip", "pressure", "visib"]
    hourly = weather.sort_values(["origin", "time_hour"]).reset_index(drop=True)
    for hours in (3, 6, 24):
        rolled = hourly.groupby("origin")[measured].rolling(hours, min_periods=1)
        for how in ("mean", "max", "std"):
            found = getattr(rolled, how)().reset_index(level=0, drop=True)
            hourly = hourly.join(found.add_suffix(f"_{hours}h_{how}"))
    for hours in (1, 2, 3):
        before = hourly.groupby("origin")[measured].shift(hours)
        hourly = hourly.join(hourly[measured].sub(before).add_suffix(f"_{hours}h_change"))
    print(hourly.shape)
    """
)

SECOND = cells(
    """
    # %%
    skies = hourly.drop(columns=["rownames", "year", "month", "day", "hour"])
    seen = trips[["origin", "time_hour"]].merge(skies, on=["origin", "time_hour"], how="left")
    seen = seen.drop(columns=["origin", "time_hour"]).astype("float32")
    print(seen.shape)

    # %%
    # What each plane has done before, as far as it is known two hours ahead.
    order = trips.sort_values(["tailnum", "time_hour", "rownames"])
    of_plane = order.groupby("tailnum")["arr_delay"]
    past = pd.DataFrame({"plane_last": of_plane.shift(1), "plane_last_but_one": of_plane.shift(2)})
    for flights_ago in (3, 10, 30, 100):
        found = lately(order, ["tailnum"], flights_ago, 1)
        past = past.join(found.add_prefix(f"plane_{flights_ago}_"))
    past = past.sort_index()

    # %%
    order = trips.sort_values(["time_hour", "rownames"])
    places = (["origin"], ["dest"], ["origin", "dest"], ["origin", "hour"], ["dest", "hour"])
    lines = (["carrier"], ["origin", "carrier"], ["carrier", "dest"], ["flight"])
    for keys in (*places, *lines):
        name = "_".join(keys)
        for window in (20, 100, 500):
            found = lately(order, keys, window, 50)
            past = past.join(found.add_prefix(f"{name}_{window}_"))
    print(past.shape)

    # %%
    # Whose delays go up, and whose go down.
    def trend(delays):
        values = delays.to_numpy()
        slopes = np.full(len(values), np.nan)
        for at in range(10, len(values)):
            latest = values[at - 10 : at]
            slopes[at] = latest @ RAMP
        return pd.Series(slopes, delays.index)


    RAMP = (np.arange(10) - 4.5) / 82.5
    for key in ("tailnum", "flight", "dest", "carrier"):
        past[f"{key}_trend"] = order.groupby(key)["arr_delay"].transform(trend)
    print(past.filter(like="_trend").describe())

    # %%
    # The same with what is long ago counting less.
    faded = {}
    for key in ("tailnum", "flight", "dest"):
        before = order.groupby(key)["arr_delay"].shift(5)
        for halflife in (5, 20, 80):
            found = before.groupby(order[key]).ewm(halflife=halflife).mean()
            faded[f"{key}_{halflife}_faded"] = found.reset_index(level=0, drop=True)
    past = pd.concat([past, pd.DataFrame(faded)], axis=1)
    print(past.shape)

    # %%
    plan = trips[["tailnum", "sched_dep_time", "sched_arr_time", "distance", "hour", "minute"]]
    per_plane = aggregate_numbers(plan, "tailnum", "plane")
    kinds = count_kinds(trips[["tailnum", "carrier", "origin"]], "tailnum", "plane")
    per_plane = per_plane.merge(kinds, on="tailnum", how="left")
    print(per_plane.shape)

    # %%
    machines = planes.rename(columns={"year": "built"}).drop(columns=["rownames", "model", "speed"])
    machines = pd.get_dummies(machines, columns=["type", "engine"], dtype="float32")
    machines["manufacturer"] = machines["manufacturer"].map(machines["manufacturer"].value_counts())
    per_plane = per_plane.merge(machines, on="tailnum", how="left")

    # %%
    joined = trips[["tailnum", "month", "day", "sched_dep_time", "sched_arr_time", "distance"]]
    joined = joined.merge(per_plane, on="tailnum", how="left").drop(columns="tailnum")
    joined = joined.astype("float32")
    print(joined.shape)

    # %%
    joined = pd.concat([joined, past.astype("float32")], axis=1)

    # %%
    joined = pd.concat([joined, seen], axis=1)
    print(joined.shape)

    # %%
    joined = drop_missing(joined)

    # %%
    links = joined.sample(frac=0.06, random_state=50).corr().abs()
    print(links.shape)

    # %%
    upper = links.where(np.triu(np.ones(links.shape, dtype=bool), k=1))
    twins = [name for name in upper.columns if (upper[name] > 0.9).any()]
    second = joined.drop(columns=twins)
    print("twins", len(twins), second.shape, float(second.sum().sum()))
    """
)

FOLDS = cells(
    """
    # %%
    def folds(X, y, **settings):
        scores = []
        for train, test in StratifiedKFold(2, shuffle=True, random_state=50).split(X, y):
            model = HistGradientBoostingClassifier(random_state=50, **settings)
            model.fit(X.iloc[train], y.iloc[train])
            scores.append(roc_auc_score(y.iloc[test], model.predict_proba(X.iloc[test])[:, 1]))
        return scores
    """
)

SECOND_MODELS = FOLDS + cells(
    """
    # %%
    few = second.sample(frac=0.02, random_state=50)
    control = few[[name for name in few.columns if not name.startswith(("plane_", "carrier_"))]]
    print("control", folds(control, target.loc[few.index], max_iter=20))

    # %%
    print("joined", folds(few, target.loc[few.index], max_iter=20))
    """
)
