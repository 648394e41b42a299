//! Heat: stacks and their resources.
//!
//! Two habits of Heat that callers must know: a deleted stack is still shown by its id (as `DELETE_COMPLETE`) while
//! by its name it is not found; and a look-up by name answers with a redirect, which is followed here on our own
//! endpoint, because the address that Heat believes to have is often not the one it is reached by.

mod stack;

pub use self::stack::{Blueprint, Link, NewStack, Signal, Stack, StackFilter, StackResource, StackUpdate};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::error::CloudError;
use crate::page;
use crate::request::Request;
use crate::service::Service;
use crate::session::Session;

/// What Heat shows in place of the value of a hidden parameter.
pub const HIDDEN: &str = "******";

/// Orchestration calls of a session.
#[derive(Clone, Debug)]
pub struct Heat(Session);

#[derive(Deserialize)]
struct StackAnswer {
    stack: Stack,
}
#[derive(Deserialize)]
struct CreateAnswer {
    stack: Created,
}
#[derive(Deserialize)]
struct Created {
    id: String,
}
#[derive(Deserialize)]
struct ResourcesAnswer {
    resources: Vec<StackResource>,
}

#[derive(Deserialize)]
struct OutputAnswer {
    output: Output,
}
#[derive(Deserialize)]
struct Output {
    /// Not there beside an error.
    #[serde(default)]
    output_value: Value,
}

#[derive(Deserialize)]
struct MetadataAnswer {
    metadata: Map<String, Value>,
}

impl MetadataAnswer {
    fn signals(&self) -> Vec<Signal> {
        let text = |said: &Value, field: &str| said[field].as_str().unwrap_or_default().to_owned();
        let signal = |(id, said): (&String, &Value)| Signal {
            id: id.clone(),
            status: text(said, "status"),
            reason: text(said, "reason"),
            data: text(said, "data"),
        };
        self.metadata.iter().map(signal).collect()
    }
}

impl Session {
    /// Orchestration calls with this session.
    pub fn heat(&self) -> Heat {
        Heat(self.clone())
    }
}

impl Heat {
    /// Makes a stack and says its id.
    pub async fn create_stack(&self, new: &NewStack) -> Result<String, CloudError> {
        let mut body = Map::new();
        body.insert("stack_name".into(), new.name.as_str().into());
        body.insert("template".into(), new.template.as_str().into());
        body.insert("files".into(), json!(new.files));
        if !new.environment.is_empty() {
            body.insert("environment".into(), Value::Object(new.environment.clone()));
        }
        body.insert("parameters".into(), Value::Object(new.parameters.clone()));
        body.insert("timeout_mins".into(), new.timeout_mins.into());
        body.insert("disable_rollback".into(), new.disable_rollback.into());
        if !new.tags.is_empty() {
            body.insert("tags".into(), new.tags.join(",").into());
        }
        let request = Request::post(Service::Orchestration, "stack_create", ["stacks"], Value::Object(body));
        let request = hiding(request, &new.parameters, new.hidden);
        Ok(self.0.fetch::<CreateAnswer>(request).await?.stack.id)
    }

    /// The stack of that name (if not deleted) or id (deleted or not), without its outputs.
    pub async fn find_stack(&self, name_or_id: &str) -> Result<Option<Stack>, CloudError> {
        let request = get("stack_find", ["stacks", name_or_id]);
        let answer = match self.0.answer(&request).await {
            Ok(answer) => answer,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        if !answer.status.is_redirection() {
            return answer.json::<StackAnswer>().map(|it| Some(it.stack));
        }
        match answer.location().and_then(stack::name_and_id) {
            Some((name, id)) => self.stack(&name, &id).await,
            None => Err(answer.malformed("the redirect names no stack")),
        }
    }

    /// The stack without its outputs, deleted or not; `None` once Heat has forgotten it.
    pub async fn stack(&self, name: &str, id: &str) -> Result<Option<Stack>, CloudError> {
        let request = get("stack_show", ["stacks", name, id]).query("resolve_outputs", "False");
        Ok(self.0.find::<StackAnswer>(request).await?.map(|answer| answer.stack))
    }

    /// The value of one output of a stack: null where Heat cannot work it out, `None` where the stack has none of this name, or is not there. There is
    /// no call for all of them at once: those of many nodes take Heat longer than it gives itself for an answer.
    pub async fn output(&self, name: &str, id: &str, output: &str) -> Result<Option<Value>, CloudError> {
        let request = get("output_show", ["stacks", name, id, "outputs", output]);
        Ok(self.0.find::<OutputAnswer>(request).await?.map(|answer| answer.output.output_value))
    }

    /// What the stack was last made from; `None` once Heat has forgotten it. Values of hidden parameters are [`HIDDEN`].
    pub async fn blueprint(&self, name: &str, id: &str) -> Result<Option<Blueprint>, CloudError> {
        let Some(template) = self.0.find::<Value>(get("template_show", ["stacks", name, id, "template"])).await? else { return Ok(None) };
        let Some(files) = self.0.find(get("files_list", ["stacks", name, id, "files"])).await? else { return Ok(None) };
        let environment = self.0.find(get("environment_show", ["stacks", name, id, "environment"])).await?;
        Ok(environment.map(|environment| Blueprint { template, files, environment }))
    }

    /// The stack's resources, those of nested stacks included down to the given depth (0: none of them).
    pub async fn resources(&self, name: &str, id: &str, nested_depth: u32) -> Result<Vec<StackResource>, CloudError> {
        let depth = (nested_depth > 0).then(|| nested_depth.to_string());
        let request = get("resource_list", ["stacks", name, id, "resources"]).query_if("nested_depth", depth);
        Ok(self.0.fetch::<ResourcesAnswer>(request).await?.resources)
    }

    /// What the handle of a wait condition was told.
    pub async fn signals(&self, name: &str, id: &str, handle: &str) -> Result<Vec<Signal>, CloudError> {
        let request = get("resource_metadata", ["stacks", name, id, "resources", handle, "metadata"]);
        Ok(self.0.fetch::<MetadataAnswer>(request).await?.signals())
    }

    /// Tells the handle of a wait condition something, in place of what it was told with the same id. Heat does so after its answer: who must know
    /// asks for [`Heat::signals`].
    pub async fn signal(&self, name: &str, id: &str, handle: &str, signal: &Signal) -> Result<(), CloudError> {
        let Signal { id: id_of_signal, status, reason, data } = signal;
        let body = json!({"id": id_of_signal, "status": status, "reason": reason, "data": data});
        let path = ["stacks", name, id, "resources", handle, "signal"];
        self.0.answer(&Request::post(Service::Orchestration, "resource_signal", path, body)).await.map(drop)
    }

    /// The stacks that match, without outputs and parameters.
    pub async fn stacks(&self, filter: &StackFilter) -> Result<Vec<Stack>, CloudError> {
        page::all(&self.0, "stacks", || {
            let request = get("stack_list", ["stacks"]);
            filter
                .ids
                .iter()
                .fold(request, |request, id| request.query("id", id.as_str()))
                .tags(&filter.tags)
                .query_if("stack_name", filter.name.clone())
                .query_if("show_deleted", filter.show_deleted.then_some("True"))
                .query_if("global_tenant", filter.all_projects.then_some("True"))
        })
        .await
    }

    /// Changes what is named and keeps the rest: template, files and parameters that are not given stay.
    pub async fn update_stack(&self, name: &str, id: &str, update: &StackUpdate) -> Result<(), CloudError> {
        let mut body = Map::new();
        body.insert("parameters".into(), Value::Object(update.parameters.clone()));
        if let Some(template) = &update.template {
            body.insert("template".into(), template.as_str().into());
        }
        if !update.files.is_empty() {
            body.insert("files".into(), json!(update.files));
        }
        if let Some(minutes) = update.timeout_mins {
            body.insert("timeout_mins".into(), minutes.into());
        }
        if let Some(disable) = update.disable_rollback {
            body.insert("disable_rollback".into(), disable.into());
        }
        let request = Request::patch(Service::Orchestration, "stack_update", ["stacks", name, id], Value::Object(body));
        let request = hiding(request, &update.parameters, update.hidden);
        self.0.answer(&request).await.map(drop)
    }

    /// Begins to delete the stack; false when there was none.
    pub async fn delete_stack(&self, name: &str, id: &str) -> Result<bool, CloudError> {
        self.0.remove(Request::delete(Service::Orchestration, "stack_delete", ["stacks", name, id])).await
    }
}

fn get<const N: usize>(operation: &'static str, path: [&str; N]) -> Request {
    Request::get(Service::Orchestration, operation, path)
}

/// The request, in whose errors the texts that these parameters are given do not appear.
fn hiding(request: Request, parameters: &Map<String, Value>, names: &[&str]) -> Request {
    let texts = names.iter().filter_map(|name| parameters.get(*name)?.as_str());
    texts.fold(request, |request, text| request.hide(&text.into()))
}
