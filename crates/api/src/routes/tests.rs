use super::*;

#[test]
fn paths_are_split_before_they_are_decoded() {
    for (path, expected) in [
        ("/v1/clusters", &["clusters"][..]),
        ("/v1/clusters/", &["clusters"]),
        ("/clusters/a.b", &["clusters", "a.b"]),
        ("/v1/clustertemplates/R&D=x+y", &["clustertemplates", "R&D=x+y"]),
        ("/v1/clustertemplates/a%2Fb%20c", &["clustertemplates", "a/b c"]),
        ("/v1/clusters/100%", &["clusters", "100%"]),
        // Nothing in a path may lead to another route than the path says.
        ("/v1/x&p=/clusters", &["x&p=", "clusters"]),
        ("/v1/v1/clusters", &["v1", "clusters"]),
    ] {
        assert_eq!(segments(path).expect("valid"), expected, "{path}");
    }
    for bad in ["/v1/clusters/%ff", "//v1/clusters", "/v1//clusters"] {
        assert!(matches!(segments(bad), Err(ApiError::Invalid(_))), "{bad}");
    }
}

#[test]
fn a_path_leads_to_one_route_and_a_literal_goes_first() {
    let find = |method: &str, path: &str| {
        let segments: Vec<&str> = path.split('/').collect();
        ROUTES.iter().find(|r| r.method == method && fits(r.path, &segments)).map(|r| r.name)
    };
    assert_eq!(find("GET", "clusters/detail"), Some("list_clusters_detail"));
    assert_eq!(find("GET", "clusters/details"), Some("show_cluster"));
    assert_eq!(find("PATCH", "clustertemplates/detail"), Some("update_clustertemplate"));
    assert_eq!(find("GET", "clusters/a/b"), None);
    assert_eq!(args("certificates/{cluster}", &["certificates", "blue"]), vec![("cluster", "blue".to_owned())]);
}

#[test]
fn every_route_asks_a_policy_and_has_a_name_of_its_own() {
    let mut seen = std::collections::HashSet::new();
    for route in ROUTES {
        assert!(!route.acts.is_empty(), "{} {} asks no policy", route.method, route.path);
        assert!(seen.insert(route.name), "{} is there twice", route.name);
        let on_path: Vec<_> = ROUTES.iter().filter(|r| r.path == route.path).collect();
        assert!(on_path.iter().filter(|r| r.method == route.method).count() == 1, "{} {} is there twice", route.method, route.path);
    }
}

#[test]
fn what_would_happen_can_be_asked_of_the_requests_that_drivers_tell_it_of() {
    let foretelling: Vec<&str> = ROUTES.iter().filter(|route| route.foretells()).map(|route| route.name).collect();
    assert_eq!(foretelling, ["create_cluster", "delete_cluster", "resize_cluster", "upgrade_cluster"]);
    assert!(ROUTES.iter().all(|route| route.changes() || !route.foretells()), "what changes nothing needs no forecast");
}

#[test]
fn every_policy_is_asked_by_a_route() {
    for act in Act::ALL {
        assert!(ROUTES.iter().any(|route| route.acts.contains(act)), "no route asks {}", act.as_str());
    }
}

#[test]
fn what_is_missing_in_a_path_is_named() {
    assert!(matches!(no_route("PATCH", &["clusters"]), ApiError::Invalid(text) if text.contains("cluster_ident")));
    assert!(matches!(no_route("GET", &["quotas", "p"]), ApiError::Invalid(text) if text.contains("resource")));
    assert!(matches!(no_route("PUT", &["clusters", "a"]), ApiError::Method { allow: EVERYTHING }));
    assert!(matches!(no_route("GET", &["clusters", "a", "actions", "resize"]), ApiError::Method { allow: "" }));
    assert!(matches!(no_route("GET", &["clusters", "a", "actions", "dance"]), ApiError::NoRoute));
    assert!(matches!(no_route("GET", &["bays"]), ApiError::NoRoute));
    assert!(matches!(no_route("POST", &["bays"]), ApiError::Method { allow: "" }));
}
