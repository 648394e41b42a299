use std::collections::HashSet;

use super::*;
use crate::microversion::Microversion;
use crate::routes::{Route, Takes};
use crate::view::forecast::FORECAST;

fn at<'a>(document: &'a Value, path: &str, method: &str) -> &'a Value {
    let found = &document["paths"][path][method];
    assert!(found.is_object(), "{method} {path} is not described");
    found
}

fn resolve<'a>(document: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => document.pointer(&reference[1..]).unwrap_or_else(|| panic!("{reference} leads nowhere")),
        None => value,
    }
}

#[test]
fn every_route_is_described_as_it_is_and_nothing_else_is() {
    let document = document();
    let mut described = HashSet::new();
    for (path, operations) in document["paths"].as_object().expect("paths") {
        for method in operations.as_object().expect("operations").keys() {
            described.insert((path.clone(), method.clone()));
        }
    }
    for public in PUBLIC {
        assert!(described.remove(&(public.path.to_owned(), "get".to_owned())), "{}", public.path);
    }
    for route in ROUTES {
        let (path, method) = (format!("/v1/{}", route.path), route.method.to_ascii_lowercase());
        compare(&document, route, at(&document, &path, &method));
        assert!(described.remove(&(path, method)), "{} is there twice", route.name);
    }
    assert_eq!(described, HashSet::new(), "described, but no routes");
}

fn compare(document: &Value, route: &Route, operation: &Value) {
    let name = route.name;
    assert_eq!(operation["operationId"], name);
    let parameters = operation["parameters"].as_array().expect("parameters");
    let named = |place: &str| -> HashSet<&str> {
        let there = parameters.iter().map(|p| resolve(document, p)).filter(|p| p["in"] == place);
        there.map(|p| p["name"].as_str().expect("a name")).collect()
    };
    let open: HashSet<&str> = route.path.split('/').filter_map(|p| p.strip_prefix('{')?.strip_suffix('}')).collect();
    assert_eq!(named("path"), open, "{name}");
    assert_eq!(named("query"), route.query.iter().map(|p| p.name).collect(), "{name}");
    let headers = [("OpenStack-API-Version", true), ("Idempotency-Key", route.changes()), ("Last-Event-ID", route.streams)];
    assert_eq!(named("header"), headers.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect(), "{name}");
    assert_eq!(operation["requestBody"].is_object(), !matches!(route.body, Takes::Nothing), "{name}");
    if let Takes::Object(schema) = route.body {
        let body = resolve(document, &operation["requestBody"]["content"]["application/json"]["schema"]);
        let keys: HashSet<&str> = body["properties"].as_object().expect("properties").keys().map(String::as_str).collect();
        let fields = schema.fields.iter().filter(|f| f.presence != crate::view::schema::Presence::ReadOnly);
        assert_eq!(keys, fields.map(|f| f.name).collect(), "{name}");
    }
    let responses = operation["responses"].as_object().expect("responses");
    let good: HashSet<&str> = responses.keys().map(String::as_str).filter(|status| status.starts_with('2')).collect();
    let due = [Some(route.success.to_string()), route.foretells().then(|| "200".to_owned())];
    assert_eq!(good, due.iter().flatten().map(String::as_str).collect(), "{name}");
    for status in ["400", "401", "403", "406", "503"] {
        assert!(responses.contains_key(status), "{name}: {status}");
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_name_says_one_thing() {
    fn walk(document: &Value, value: &Value) {
        resolve(document, value);
        match value {
            Value::Object(map) => map.values().for_each(|v| walk(document, v)),
            Value::Array(items) => items.iter().for_each(|v| walk(document, v)),
            _ => {}
        }
    }
    let document = document();
    walk(&document, &document);
    // Two shapes of one name would hide each other.
    let mut objects: Vec<&Object> = Vec::new();
    fn collect(shape: &Shape, objects: &mut Vec<&'static Object>) {
        match shape {
            Shape::Nullable(inner) | Shape::List(inner) => collect(inner, objects),
            Shape::Object(object) if !objects.iter().any(|o| std::ptr::eq(*o, *object)) => {
                objects.push(object);
                object.properties.iter().for_each(|p| collect(&p.shape, objects));
            }
            _ => {}
        }
    }
    ROUTES.iter().for_each(|route| collect(&route.answer, &mut objects));
    collect(&Shape::Object(&FORECAST), &mut objects);
    let names: HashSet<&str> = objects.iter().map(|o| o.name).collect();
    assert_eq!(names.len(), objects.len(), "two shapes of one name");
    for object in objects {
        let silent: Vec<&str> = object.properties.iter().filter(|p| object.about(p).is_empty()).map(|p| p.name).collect();
        assert!(silent.is_empty(), "{}: nobody says what {silent:?} mean", object.name);
    }
}

#[test]
fn what_needs_no_token_is_described_as_it_is() {
    for (shape, value) in [(&discovery::VERSIONS, discovery::root("http://h")), (&discovery::VERSION, discovery::v1("http://h"))] {
        assert_eq!(shape.check(&value, MAX), Ok(()), "{}", shape.name);
    }
    let served: Value = serde_json::from_str(&text("http://h:1/\"prefix")).expect("JSON");
    assert_eq!(served["servers"][0]["url"], "http://h:1/\"prefix");
}

#[test]
fn a_route_of_a_later_microversion_needs_the_header() {
    let parameters = parameters_by_version();
    // And the two that are no microversion.
    assert_eq!(parameters.len(), Microversion::all().count() + 2);
    let document = document();
    for route in ROUTES.iter().filter(|r| r.since > MIN) {
        let operation = at(&document, &format!("/v1/{}", route.path), &route.method.to_ascii_lowercase());
        let parameters = operation["parameters"].as_array().expect("parameters");
        let header = parameters.iter().map(|p| resolve(&document, p)).find(|p| p["in"] == "header").expect("the header");
        assert_eq!(header["required"], true, "{}", route.name);
        assert_eq!(header["schema"]["enum"][0], format!("container-infra {}", route.since));
    }
}

fn parameters_by_version() -> Map<String, Value> {
    operation::parameters().as_object().cloned().expect("an object")
}
