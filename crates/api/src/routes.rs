//! Every route on one page.
//!
//! Paths are taken as upstream takes them: `/v1` may be left out, a trailing slash does not matter, a known resource with another method
//! is 405 with the methods of its controller, and an unknown one is 404 to GET and 405 to everything else.

use crate::answer::Answer;
use crate::context::Context;
use crate::error::ApiError;
use crate::view::cluster::Depth;
use crate::{certificate, cluster, service, template};

/// Answers a request on a decoded path.
pub async fn dispatch(cx: Context, method: &str, path: &str) -> Result<Answer, ApiError> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let path = path.strip_suffix('/').unwrap_or(path);
    let mut segments: Vec<&str> = path.split('/').collect();
    if segments.first() == Some(&"v1") {
        segments.remove(0);
    }
    match (method, &segments[..]) {
        ("GET", ["clusters"]) => cluster::list::list(&cx, Depth::Short).await,
        ("GET", ["clusters", "detail"]) => cluster::list::list(&cx, Depth::Detail).await,
        ("POST", ["clusters"]) => cluster::create::create(cx).await,
        ("GET", ["clusters", id]) => cluster::show::show(&cx, id).await,
        ("DELETE", ["clusters", id]) => {
            let id = (*id).to_owned();
            cluster::delete::delete(cx, &id).await
        }

        ("GET", ["clustertemplates"]) => template::list::list(&cx, template::list::LIST).await,
        ("GET", ["clustertemplates", "detail"]) => template::list::list(&cx, template::list::DETAIL).await,
        ("POST", ["clustertemplates"]) => template::create::create(&cx).await,
        ("GET", ["clustertemplates", id]) => template::show::show(&cx, id).await,
        ("PATCH", ["clustertemplates", id]) => template::update::update(&cx, id).await,
        ("DELETE", ["clustertemplates", id]) => template::delete::delete(&cx, id).await,

        ("GET", ["certificates", id]) => certificate::show::show(&cx, id).await,
        ("POST", ["certificates"]) => certificate::sign::sign(&cx).await,

        ("GET", ["mservices"]) => service::list::list(&cx).await,

        (method, segments) => Err(no_route(method, segments)),
    }
}

fn no_route(method: &str, segments: &[&str]) -> ApiError {
    let allow = match segments {
        ["clusters" | "clustertemplates"] | ["clusters" | "clustertemplates", _] => "DELETE, GET, PATCH, POST",
        ["certificates"] | ["certificates", _] => "GET, PATCH, POST",
        ["mservices"] => "GET",
        _ if method == "GET" => return ApiError::NoRoute("The resource could not be found.".into()),
        _ => "",
    };
    ApiError::Method { allow }
}
