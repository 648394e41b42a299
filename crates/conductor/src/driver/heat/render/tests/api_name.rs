//! The name of the API in DNS: in the stack, and in certificates.

use super::*;

/// The names for which the API server gets its certificate, beside those that the node fills in.
fn names_in_certificates(rendered: &Rendered) -> Vec<String> {
    let init = content(user_data(rendered, "master"), "/etc/kubernetes-bootstrap/init.yaml");
    let document = init.split("---\n").nth(1).expect("the cluster's configuration");
    let document: Value = serde_json::from_str(document).expect("JSON");
    let names = document["apiServer"]["certSANs"].as_array().expect("a list").iter();
    names.filter_map(Value::as_str).filter(|name| *name != "@SANS@").map(str::to_owned).collect()
}

#[test]
fn a_cluster_with_a_name_has_a_record_and_certificates_for_it() {
    let none = labels(&[]);
    let rendered = done(&StackInput { api_name: Some("one.clusters.example.org."), ..input(&none) });
    let of = |name: &str| rendered.parameters[name].as_str().expect("a text").to_owned();
    assert_eq!((of("api_dns_zone"), of("api_dns_name")), ("clusters.example.org.".into(), "one.clusters.example.org.".into()));
    assert_eq!(names_in_certificates(&rendered), ["one.clusters.example.org"]);
    let init = content(user_data(&rendered, "master"), "/etc/kubernetes-bootstrap/init.yaml");
    assert!(init.contains("\"@SANS@\""), "the addresses are left out: {init}");
}

#[test]
fn a_cluster_without_a_name_has_neither() {
    let none = labels(&[]);
    let rendered = done(&input(&none));
    assert_eq!((&rendered.parameters["api_dns_zone"], &rendered.parameters["api_dns_name"]), (&"".into(), &"".into()));
    assert_eq!(names_in_certificates(&rendered), Vec::<String>::new());
    // Only who asks for it has the resource: a cloud need not have Designate.
    let template = yaml(&rendered.template);
    let of_designate: Vec<&Value> = template["resources"]
        .as_object()
        .expect("a map")
        .values()
        .filter(|resource| resource["type"].as_str().is_some_and(|kind| kind.starts_with("OS::Designate::")))
        .collect();
    assert!(of_designate.len() == 1 && of_designate[0]["condition"] == "api_named", "{of_designate:?}");
    assert_eq!(template["conditions"]["api_named"], serde_json::json!({"not": {"equals": [{"get_param": "api_dns_zone"}, ""]}}));
    // The record says the address that clients are told.
    assert_eq!(of_designate[0]["properties"]["records"][0], template["outputs"]["api_address"]["value"]);
}
