//! JSON schemas of requests and answers: exactly what is taken, and what is given.

use serde_json::{Map, Value, json};

use crate::routes::Holds;
use crate::view::patch;
use crate::view::schema::{Field, Kind, MAX_ITEMS, MAX_LABEL_TEXT, MAX_LABELS, Presence, Schema};
use crate::view::shape::{Object, Shape, Shown};

/// What can be stored: no NUL, and nothing beyond the basic plane.
const STORABLE: &str = r"^[\u0001-\uFFFF]*$";
/// A uuid, in the spellings that are taken.
const UUID: &str = r"^(urn:uuid:)?\{?([0-9A-Fa-f]-?){32}\}?$";
/// A boolean in words.
const FLAG: &str = r"^\s*([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]|[Yy][Ee][Ss]|[Nn][Oo]|[Oo][Nn]|[Oo][Ff][Ff]|[TtFfYyNn10])\s*$";

/// The schemas that others refer to, by name.
#[derive(Default)]
pub struct Components(Map<String, Value>);

impl Components {
    /// All of them, with those of errors.
    pub fn into_value(mut self) -> Value {
        self.0.extend(errors());
        self.0.sort_keys();
        Value::Object(self.0)
    }

    /// A part of an answer.
    pub fn shape(&mut self, shape: &Shape) -> Value {
        match shape {
            Shape::Nothing => json!({"type": "null"}),
            Shape::Text => json!({"type": "string"}),
            Shape::Uuid => json!({"type": "string", "format": "uuid"}),
            Shape::Url => json!({"type": "string", "format": "uri"}),
            Shape::Time => json!({"type": "string", "format": "date-time"}),
            Shape::Integer(i64::MIN) => json!({"type": "integer"}),
            Shape::Integer(min) => json!({"type": "integer", "minimum": min}),
            Shape::Boolean => json!({"type": "boolean"}),
            Shape::OneOf(words) => json!({"type": "string", "enum": words}),
            Shape::StringMap => json!({"type": "object", "additionalProperties": {"type": "string"}}),
            Shape::List(item) => json!({"type": "array", "items": self.shape(item)}),
            Shape::Object(object) => self.object(object),
            Shape::Nullable(inner) => or_null(self.shape(inner)),
        }
    }

    fn object(&mut self, object: &Object) -> Value {
        let name = object.name;
        let reference = reference(name);
        if self.0.contains_key(name) {
            return reference;
        }
        let mut properties = Map::new();
        let mut required = Vec::new();
        for property in object.properties {
            let mut schema = self.shape(&property.shape);
            describe(&mut schema, object.about(property));
            match property.shown {
                Shown::Always => required.push(property.name),
                Shown::Sometimes | Shown::AlwaysBefore(_) => {}
                Shown::Since(version) => schema["x-openstack"] = json!({"min-ver": version.to_string()}),
                Shown::Before(version) => schema["x-openstack"] = json!({"max-ver": version.before().to_string()}),
            }
            properties.insert(property.name.to_owned(), schema);
        }
        let schema = json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        self.0.insert(name.to_owned(), schema);
        reference
    }

    /// A request body.
    pub fn request(&mut self, name: &str, schema: &Schema) -> Value {
        let fields = schema.fields.iter().filter(|f| f.presence != Presence::ReadOnly);
        let properties: Map<String, Value> = fields.clone().map(|f| (f.name.to_owned(), field(f))).collect();
        let required: Vec<&str> = fields.filter(|f| f.presence != Presence::Optional).map(|f| f.name).collect();
        let schema = json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
        self.0.insert(name.to_owned(), schema);
        reference(name)
    }

    /// A JSON patch, as far as it is taken (rest-api.md 3.5).
    pub fn patch(&mut self) -> Value {
        let path = json!({"type": "string", "pattern": r"^(/[\w-]+){1,2}$", "description": "An attribute, or a key of one."});
        let value = json!({
            "type": ["string", "integer", "boolean"],
            "minimum": i64::MIN,
            "maximum": u64::MAX,
            "description": "Maps are sent as text that holds them: JSON, or a Python literal.",
        });
        let operation = |ops: &[&str], required: &[&str], value: &Value| {
            json!({
                "type": "object",
                "properties": {"op": {"type": "string", "enum": ops}, "path": path, "value": value},
                "required": required,
                "additionalProperties": false,
            })
        };
        let change = operation(&["add", "replace"], &["op", "path", "value"], &value);
        let remove = operation(&["remove"], &["op", "path"], &json!({"description": "Not looked at."}));
        let items = json!({"anyOf": [change, remove]});
        self.0.insert("Patch".to_owned(), json!({"type": "array", "maxItems": patch::MAX_CHANGES, "items": items}));
        reference("Patch")
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn describe(schema: &mut Value, about: &str) {
    if !about.is_empty() {
        schema["description"] = json!(about);
    }
}

/// The same, or null.
fn or_null(mut schema: Value) -> Value {
    if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
        words.push(Value::Null);
    }
    match schema.get_mut("type") {
        Some(Value::Array(kinds)) => kinds.push("null".into()),
        Some(kind) => *kind = json!([kind.clone(), "null"]),
        None => return json!({"anyOf": [schema, {"type": "null"}]}),
    }
    schema
}

fn field(field: &Field) -> Value {
    let mut schema = kind(field.kind);
    if field.presence != Presence::Needed {
        schema = or_null(schema);
    }
    describe(&mut schema, field.about);
    schema
}

/// What a field of a request may hold.
fn kind(kind: Kind) -> Value {
    match kind {
        Kind::Text { min, max } => json!({"type": "string", "minLength": min, "maxLength": max, "pattern": STORABLE}),
        Kind::Name => json!({"type": "string", "minLength": 1, "maxLength": Kind::NAME_LIMIT, "pattern": "^[A-Za-z][A-Za-z0-9_.-]*$"}),
        Kind::Integer { min, max } => integer(min, max),
        Kind::Boolean => json!({"anyOf": [{"type": "boolean"}, {"enum": [0, 1]}, {"type": "string", "pattern": FLAG}]}),
        Kind::Labels => json!({
            "type": "object",
            "maxProperties": MAX_LABELS,
            "propertyNames": {"maxLength": MAX_LABEL_TEXT, "pattern": STORABLE},
            "additionalProperties": {
                "type": ["string", "number", "boolean"], "maxLength": MAX_LABEL_TEXT, "pattern": STORABLE,
            },
        }),
        Kind::Uuid => json!({"type": "string", "pattern": UUID}),
        Kind::OneOf(words) => json!({"type": "string", "enum": words}),
        Kind::Texts => json!({"type": "array", "maxItems": MAX_ITEMS, "items": {"type": "string", "pattern": STORABLE}}),
        Kind::StringMap => strings(),
        Kind::StringMaps => json!({"type": "array", "maxItems": MAX_ITEMS, "items": strings()}),
    }
}

fn strings() -> Value {
    json!({
        "type": "object",
        "maxProperties": MAX_LABELS,
        "propertyNames": {"maxLength": MAX_LABEL_TEXT, "pattern": STORABLE},
        "additionalProperties": {"type": "string", "maxLength": MAX_LABEL_TEXT, "pattern": STORABLE},
    })
}

/// A number, and what is read as one: text that holds it, a fraction (which is cut), a boolean (0 or 1).
fn integer(min: i32, max: i32) -> Value {
    // -0.5 is cut to 0.
    let number = if min > 0 {
        json!({"type": "number", "minimum": min, "exclusiveMaximum": i64::from(max) + 1})
    } else {
        json!({"type": "number", "exclusiveMinimum": i64::from(min) - 1, "exclusiveMaximum": i64::from(max) + 1})
    };
    let booleans: Vec<bool> = [false, true].into_iter().filter(|b| (min..=max).contains(&i32::from(*b))).collect();
    let mut ways = vec![json!({"type": "integer", "minimum": min, "maximum": max}), number];
    ways.push(json!({"type": "string", "pattern": r"^\s*[+-]?[0-9]+\s*$", "description": "A number in range."}));
    if !booleans.is_empty() {
        ways.push(json!({"enum": booleans}));
    }
    json!({"anyOf": ways})
}

/// What a query parameter may hold.
pub fn parameter(holds: Holds) -> Value {
    match holds {
        Holds::Text => json!({"type": "string"}),
        Holds::From(least) => json!({"type": "integer", "minimum": least}),
        Holds::Boolean => json!({"anyOf": [{"type": "boolean"}, {"type": "string", "pattern": FLAG}]}),
        Holds::Uuid => json!({"type": "string", "pattern": UUID}),
        Holds::OneOf(words) => json!({"type": "string", "enum": words}),
    }
}

/// The bodies of errors (rest-api.md 2.5).
fn errors() -> Map<String, Value> {
    let text = json!({"type": "string"});
    let object = |properties: Value, required: Value| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    let one = |name: &str| {
        object(json!({"errors": {"type": "array", "minItems": 1, "maxItems": 1, "items": reference(name)}}), json!(["errors"]))
    };
    let error = object(
        json!({
            "request_id": {"type": "string", "description": "Always empty: the header x-openstack-request-id has it."},
            "code": {"type": "string", "enum": ["client", "server", ""]},
            "status": {"type": "integer", "minimum": 400, "maximum": 599},
            "title": {"type": "string", "description": "The text up to its first full stop."},
            "detail": {"type": "string", "description": "The text: the field and the rule that it breaks."},
            "links": {"type": "array", "maxItems": 0},
        }),
        json!(["request_id", "code", "status", "title", "detail", "links"]),
    );
    let unsupported = object(
        json!({
            "code": {"type": "string", "const": "magnum.microversion-unsupported"},
            "title": text,
            "description": text,
            "min_version": text,
            "max_version": text,
            "links": {"type": "array", "items": object(json!({"rel": text, "href": text}), json!(["rel", "href"]))},
        }),
        json!(["code", "title", "min_version", "max_version", "links"]),
    );
    let token = object(
        json!({"error": object(
            json!({"code": {"type": "integer", "const": 401}, "title": text, "message": text}),
            json!(["code", "title", "message"]),
        )}),
        json!(["error"]),
    );
    let named = [
        ("Error", error),
        ("Errors", one("Error")),
        ("UnsupportedMicroversion", unsupported),
        ("UnsupportedMicroversions", one("UnsupportedMicroversion")),
        ("TokenError", token),
    ];
    named.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}
