//! `GET /v1/labels`: what labels the drivers know. Ours; upstream has nothing like it.

use model::driver::DriverName;

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::policy::Act;
use crate::view::label::LabelList;

/// The labels of one driver, or of all that are in use. Whoever may read templates may read them.
pub async fn list(cx: Context) -> Result<Answer, ApiError> {
    cx.allow_own(Act::TemplateGetAll)?;
    let disabled = &cx.shared.settings.disabled_drivers;
    let installed = DriverName::ALL.iter().copied().filter(|driver| !disabled.iter().any(|name| name == driver.as_str()));
    let Some(asked) = cx.parameter("driver") else { return Answer::ok(&LabelList::of(installed)) };
    let named: Vec<DriverName> = installed.filter(|driver| driver.as_str() == asked).collect();
    if named.is_empty() {
        return Err(ApiError::value("driver", asked, format_args!("Driver {asked} is not installed")));
    }
    Answer::ok(&LabelList::of(named.into_iter()))
}
