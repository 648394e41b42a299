use model::driver::DriverName;

use super::*;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

#[test]
fn users_are_told_the_defaults_that_hold() {
    for number in [INTERVAL, DAYS, SIZE] {
        let told = DriverName::K8sFedoraCoreosV1.label(number.label).and_then(|label| label.default);
        assert_eq!(told, Some(number.default.to_string().as_str()), "{}", number.label);
        assert!((number.least..=number.most).contains(&number.default), "{}", number.label);
    }
}

#[test]
fn a_cluster_is_watched_where_it_is_asked_for_and_as_the_labels_say() {
    for nothing in [&[][..], &[(PARAMETER, "")], &[(PARAMETER, "false"), ("monitoring_retention_days", "for ever")]] {
        assert_eq!(asked_for(&labels(nothing)), Ok(None), "{nothing:?}");
    }
    let plain = Wish { interval: 30, days: 14, size: 14, storage_class: None };
    assert_eq!(asked_for(&labels(&[(PARAMETER, "True"), (STORAGE_CLASS, " ")])), Ok(Some(plain)));
    let all = [
        (PARAMETER, "true"),
        ("monitoring_interval_seconds", " 5 "),
        ("monitoring_retention_days", "3650"),
        ("monitoring_retention_size", "1"),
        (STORAGE_CLASS, "fast.ssd-1"),
    ];
    let wish = Wish { interval: 5, days: 3_650, size: 1, storage_class: Some("fast.ssd-1".into()) };
    assert_eq!(asked_for(&labels(&all)), Ok(Some(wish)));
}

#[test]
fn what_prometheus_or_kubernetes_would_not_take_is_refused_with_label_and_rule() {
    assert!(asked_for(&labels(&[(PARAMETER, "perhaps")])).is_err_and(|error| error.field == PARAMETER));
    for (label, value, word) in [
        ("monitoring_interval_seconds", "4", "from 5 to 120, not 4"),
        ("monitoring_interval_seconds", "121", "from 5 to 120"),
        ("monitoring_retention_days", "0", "from 1 to"),
        ("monitoring_retention_days", "two weeks", "not two weeks"),
        ("monitoring_retention_size", "0", "from 1 to"),
        ("monitoring_retention_size", "16385", "from 1 to 16384"),
        (TAG, "v1.8.2", "must be v3.0.0 or newer, not v1.8.2"),
        (STORAGE_CLASS, "Fast", "a name of Kubernetes"),
        (STORAGE_CLASS, "-fast", "a name of Kubernetes"),
        (STORAGE_CLASS, "fast.", "a name of Kubernetes"),
        (STORAGE_CLASS, "fast\"}", "a name of Kubernetes"),
    ] {
        let error = asked_for(&labels(&[(PARAMETER, "true"), (label, value)])).expect_err(value);
        assert!(error.field == label && error.rule.contains(word), "{label}={value}: {error}");
    }
}

#[test]
fn prometheus_of_another_time_is_known_by_its_version() {
    for (tag, is_old) in [("v1.8.2", true), ("2.55.1", true), ("v3.0.0", false), ("v3.13.2", false), ("v10.0.0", false), ("main", false)] {
        assert_eq!(is_too_old(tag), is_old, "{tag}");
    }
}
