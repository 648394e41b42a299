//! Labels: what drivers know, and whether what a request gives fits.

pub mod list;

use model::driver::DriverName;
use model::id::ProjectId;
use model::json::Labels;
use model::{labels, placement};
use serde_json::Value;

use crate::context::Context;
use crate::error::ApiError;
use crate::view::schema;

/// Refuses labels with values that their driver cannot take. Labels that it does not know are kept and logged, unless the operator wants
/// them refused as well (`[drivers] strict_labels`); what comes back is what the owner is to be told of them.
pub fn check(cx: &Context, driver: DriverName, given: &Labels) -> Result<Option<String>, ApiError> {
    let note = judge(driver, given, cx.shared.settings.strict_labels)?;
    if let Some(note) = &note {
        tracing::info!(driver = driver.as_str(), note = %note, "unknown labels kept");
    }
    Ok(note)
}

/// Refuses a management cluster that there is not, or that does not serve the project. Nothing is known, and the conductor decides, where this
/// process is told of none.
pub fn check_place(cx: &Context, driver: DriverName, given: &Labels, project: Option<&ProjectId>) -> Result<(), ApiError> {
    let known = &cx.shared.settings.management_clusters;
    match placement::wanted(given) {
        Some(name) if driver == DriverName::K8sCapiHelmV1 && !known.is_empty() => {
            let project = project.map(|id| id.0.as_str());
            let refused = |rule: String| schema::invalid(&format!("labels[{}]", placement::LABEL), &Value::from(name), &rule);
            placement::check(known, name, project).map_err(refused)
        }
        _ => Ok(()),
    }
}

fn judge(driver: DriverName, given: &Labels, is_strict: bool) -> Result<Option<String>, ApiError> {
    labels::check(driver, given)
        .map_err(|wrong| schema::invalid(&format!("labels[{}]", wrong.name), &Value::String(wrong.value), &wrong.rule))?;
    match (labels::unknown(driver, given).first(), is_strict) {
        (Some(name), true) => {
            let rule = format!("The driver {} does not know it, and this cloud refuses unknown labels", driver.as_str());
            let value = given.0.get(*name).cloned().unwrap_or_default();
            Err(schema::invalid(&format!("labels[{name}]"), &Value::String(value), &rule))
        }
        _ => Ok(labels::note(driver, given)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_labels_are_noted_or_refused_as_the_operator_wants() {
        let given = Labels([("kube_tag", "v1.33.5"), ("team", "blue")].map(|(k, v)| (k.to_owned(), v.to_owned())).into_iter().collect());
        let driver = DriverName::K8sFedoraCoreosV1;
        assert!(judge(driver, &given, false).is_ok_and(|note| note.is_some_and(|text| text.contains("team"))));
        assert!(judge(driver, &given, true).is_err_and(|error| error.to_string().contains("labels[team]. Value: '\"blue\"'")));
        assert!(judge(driver, &Labels::default(), true).is_ok_and(|note| note.is_none()));
        let wrong = Labels([("boot_volume_size".to_owned(), "ten".to_owned())].into_iter().collect());
        assert!(judge(driver, &wrong, false).is_err_and(|error| error.to_string().contains("labels[boot_volume_size]")));
    }
}
