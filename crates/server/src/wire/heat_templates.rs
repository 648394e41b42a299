//! `[drivers] heat_template_dir`: Heat templates of an operator's own.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use conductor::{HeatTemplates, SHIPPED_TEMPLATES};

/// The shipped templates, with the YAML files of the folder in the place of their namesakes; other files, and hidden ones as editors leave them,
/// are nobody's.
///
/// # Errors
/// What cannot be read, and what the driver cannot use.
pub(super) fn read(folder: Option<&Path>) -> anyhow::Result<HeatTemplates> {
    let Some(folder) = folder else { return Ok(SHIPPED_TEMPLATES.clone()) };
    let place = || format!("[drivers] heat_template_dir: {}", folder.display());
    let mut files = BTreeMap::new();
    for entry in folder.read_dir().with_context(place)? {
        let path = entry.with_context(place)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|kind| kind == "yaml" || kind == "yml") && !name.starts_with('.') {
            let text = std::fs::read_to_string(&path).with_context(|| format!("[drivers] heat_template_dir: read {}", path.display()))?;
            files.insert(name, text);
        }
    }
    HeatTemplates::of_files(&files).with_context(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: &str = include_str!("../../../conductor/src/driver/heat/templates/nodegroup.yaml");

    #[test]
    fn templates_are_read_from_the_folder_and_what_is_wrong_there_is_named() {
        assert_eq!(read(None).expect("the shipped ones"), SHIPPED_TEMPLATES);
        let folder = tempfile::tempdir().expect("a folder");
        let refused = |folder: &Path| format!("{:#}", read(Some(folder)).expect_err("it is refused"));
        assert!(refused(folder.path()).contains("it holds none of"));
        let file = folder.path().join("nodegroup.yaml");
        std::fs::write(folder.path().join("README"), "what we changed").expect("a file");
        std::fs::write(folder.path().join(".#nodegroup.yaml"), "of an editor").expect("a file");
        std::fs::write(&file, format!("# ours\n{GROUP}")).expect("a file");
        assert_ne!(read(Some(folder.path())).expect("it is good"), SHIPPED_TEMPLATES);
        std::fs::write(&file, GROUP.replace("heat_template_version", "version")).expect("a file");
        let said = refused(folder.path());
        assert!(
            said.starts_with("[drivers] heat_template_dir: ") && said.ends_with("nodegroup.yaml: heat_template_version is missing"),
            "{said}"
        );
        assert!(refused(&folder.path().join("nowhere")).contains("No such file"));
    }
}
