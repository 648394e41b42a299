//! From a cluster to the stack that is asked for: template, the files it names, parameters.
//!
//! Pure, and the same for the same input. What the user may not ask for is refused here, before anything is made.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::bootstrap;
use super::dual_stack;
use super::parameters;
use super::parameters::choices::Choices;
use super::stack_input::{Joint, StackInput};
use super::templates::{MASTER, WORKER};
use crate::driver::{PoolKind, Succession};

#[cfg(test)]
mod tests;

/// What Heat is asked for.
pub(crate) struct Rendered {
    pub template: String,
    /// By the names that the template uses as resource types.
    pub files: BTreeMap<String, String>,
    /// Holds secrets (the user data of masters).
    pub parameters: Map<String, Value>,
    /// With a leading `v`.
    pub kube_version: String,
}

/// What the user asked for cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {rule}")]
pub(crate) struct RenderError {
    /// A label, or an attribute of cluster or template.
    pub field: String,
    /// What it must obey.
    pub rule: String,
}

impl RenderError {
    pub(crate) fn new(field: &str, rule: impl Into<String>) -> Self {
        Self { field: field.to_owned(), rule: rule.into() }
    }
}

/// Renders the stack of a new cluster.
pub(crate) fn render(input: &StackInput<'_>) -> Result<Rendered, RenderError> {
    let choices = Choices::of_new(input)?;
    if input.dual_stack.is_some_and(|dual_stack| dual_stack.given_subnet.is_some() != input.fixed_network.is_some()) {
        return Err(RenderError::new(dual_stack::PARAMETER, "the IPv6 subnet of fixed_network was not looked up"));
    }
    let master = user_data_of_master(input, &choices)?;
    let worker = user_data_of_worker(input, &choices, None)?;
    Ok(Rendered {
        template: input.templates.cluster.to_string(),
        files: [(MASTER, &input.templates.master), (WORKER, &input.templates.worker)].map(file).into(),
        parameters: parameters::of(input, &choices, master, worker),
        kube_version: choices.kube_version,
    })
}

/// The parameters of a new cluster's stack, all but the first boot of its nodes.
pub(crate) fn without_first_boot(input: &StackInput<'_>) -> Result<Map<String, Value>, RenderError> {
    Ok(parameters::of(input, &Choices::of_new(input)?, String::new(), String::new()))
}

/// The version of Kubernetes of nodes that come to a cluster which is there, were they made now.
pub(crate) fn kube_version(input: &StackInput<'_>) -> Result<String, RenderError> {
    Choices::read(input).map(|choices| choices.kube_version)
}

/// Renders the stack of a group of workers.
pub(crate) fn render_group(input: &StackInput<'_>, joint: &Joint, group_uuid: &str) -> Result<Rendered, RenderError> {
    let choices = Choices::read(input)?;
    if choices.ipv6.is_some() != joint.subnet_v6.is_some() {
        return Err(RenderError::new(
            dual_stack::PARAMETER,
            "the cluster's stack does not tell its IPv6 subnet, or has one and no use for it",
        ));
    }
    let worker = user_data_of_worker(input, &choices, None)?;
    Ok(Rendered {
        template: input.templates.group.to_string(),
        files: [(WORKER, &input.templates.worker)].map(file).into(),
        parameters: parameters::of_group(input, &choices, joint, group_uuid, worker),
        kube_version: choices.kube_version,
    })
}

fn file((name, text): (&str, &Cow<'static, str>)) -> (String, String) {
    (name.to_owned(), text.to_string())
}

/// The first boot of a worker of the input's group.
pub(crate) fn worker_user_data(input: &StackInput<'_>) -> Result<String, RenderError> {
    user_data_of_worker(input, &Choices::read(input)?, None)
}

/// The first boot of a master, or of a worker of the input's group, and the version of Kubernetes that it installs. Workers that are to replace
/// others bring an order for it.
pub(crate) fn first_boot(
    input: &StackInput<'_>,
    kind: PoolKind,
    succession: Option<&Succession<'_>>,
) -> Result<(String, String), RenderError> {
    let choices = Choices::read(input)?;
    let user_data = match kind {
        PoolKind::Masters => user_data_of_master(input, &choices)?,
        PoolKind::Workers => user_data_of_worker(input, &choices, succession)?,
    };
    Ok((user_data, choices.kube_version))
}

fn user_data_of_master(input: &StackInput<'_>, choices: &Choices) -> Result<String, RenderError> {
    bootstrap::user_data(input.distro, &bootstrap::master::config(input, choices)?, "master")
}

fn user_data_of_worker(input: &StackInput<'_>, choices: &Choices, succession: Option<&Succession<'_>>) -> Result<String, RenderError> {
    bootstrap::user_data(input.distro, &bootstrap::worker::config(input, choices, succession)?, "worker")
}
