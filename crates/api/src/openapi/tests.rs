use std::collections::HashSet;

use super::*;
use crate::error::ApiError;
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
    for path in PUBLIC.iter().map(|public| public.path).chain([health::PATH]) {
        assert!(described.remove(&(path.to_owned(), "get".to_owned())), "{path}");
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
    for (shape, value) in [
        (&discovery::VERSIONS, discovery::root("http://h")),
        (&discovery::VERSION, discovery::v1("http://h")),
        (&health::HEALTH, health::told("OK")),
    ] {
        assert_eq!(shape.check(&value, MAX), Ok(()), "{}", shape.name);
    }
    let document = document();
    for path in PUBLIC.iter().map(|public| public.path).chain([health::PATH]) {
        assert_eq!(at(&document, path, "get")["security"], json!([]), "{path}");
    }
    let served: Value = serde_json::from_str(&text("http://h:1/\"prefix")).expect("JSON");
    assert_eq!(served["servers"][0]["url"], "http://h:1/\"prefix");
}

#[test]
fn a_refusal_is_told_of_where_the_document_has_its_status_and_where_there_is_no_route() {
    let document = document();
    let described = |path: &str, method: &str, status: u16| at(&document, path, method)["responses"].get(status.to_string()).is_some();
    for status in (400..600).filter(|status| *status != 500) {
        for route in ROUTES {
            let path = format!("/v1/{}", route.path);
            let told = described(&path, &route.method.to_ascii_lowercase(), status);
            assert_eq!(tells_of(route.method, &path, status), told, "{status} of {}", route.name);
        }
        for public in PUBLIC {
            assert_eq!(tells_of("GET", public.path, status), described(public.path, "get", status), "{status} of {}", public.path);
        }
    }
    for (method, path, status, expected) in [
        ("GET", "/v1/stats", 403, true),
        ("GET", "/v1/stats", 404, false),
        ("GET", "/stats/", 409, false),
        ("GET", "/v1/clusters/blue", 404, true),
        ("GET", "/v1/clusters/blue", 422, false),
        ("DELETE", "/clusters/blue/", 422, true),
        ("GET", "/v1/clusters/blue", 405, false),
        ("PUT", "/v1/clusters/blue", 405, true),
        ("GET", "/v1/nothing", 404, true),
        ("GET", "//", 401, true),
        ("GET", "/v1/", 406, true),
        ("GET", "/v1/", 403, false),
        // A fault of ours is nothing to be told of beforehand.
        ("GET", "/v1/stats", 500, true),
    ] {
        assert_eq!(tells_of(method, path, status), expected, "{method} {path}: {status}");
    }
}

#[test]
fn a_refusal_that_says_when_to_come_back_is_described_with_that_header() {
    let document = document();
    for error in [ApiError::TooOften { retry_after: 1 }, ApiError::KeystoneDown("gone".into())] {
        assert!(error.retry_after().is_some());
        let response = &document["components"]["responses"][error.http().0.to_string()];
        let header = resolve(&document, &response["headers"]["Retry-After"]);
        assert_eq!(header["schema"]["type"], "integer", "{error}: {response}");
    }
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
