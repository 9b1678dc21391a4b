//! `torsh classify`

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use torsh_hub::{Hub, LoadStateDict};
use torsh_tensor::{Result, TorshError};
use torsh_vision::models::{ModelKind, ModelOptions, classify, get_model, model_kind};

use crate::ClassifyArgs;
use crate::output::print;

/// The names of the classes, one on each line.
fn categories(path: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| std::io::Error::new(e.kind(), format!("classify: {}: {e}", path.display())))?;
    Ok(text.lines().map(|line| line.trim().to_string()).collect())
}

/// `torsh classify`
pub(crate) fn run(args: &ClassifyArgs, json: bool) -> Result<ExitCode> {
    let mut options = ModelOptions::default();
    if let Some(classes) = args.num_classes {
        options = options.num_classes(classes);
    }
    if let Some(kind) = model_kind(&args.model)
        && kind != ModelKind::Classification
    {
        return Err(TorshError::invalid(
            "classify",
            format!("{} is no model that classifies images", args.model),
        ));
    }
    if let Some(source) = &args.weights {
        let load = LoadStateDict::new().strip_prefix("module.");
        options = options.weights(Hub::shared()?.load_state_dict(source, load)?);
    }
    let names = args.categories.as_deref().map(categories).transpose()?;
    let model = get_model(&args.model, options)?;
    if args.weights.is_none() {
        eprintln!(
            "warning: without --weights the weights are drawn at random, and the guesses mean nothing"
        );
    }
    let (mut text, mut images) = (String::new(), Vec::new());
    for path in &args.images {
        let image = torsh_vision::load_image(path)?;
        let guesses = classify(&*model, &image)?.top(args.top);
        text.push_str(&format!("{}\n", path.display()));
        let mut objects = Vec::new();
        for guess in guesses {
            let name = names.as_ref().and_then(|names| names.get(guess.class));
            let shown = name.map_or_else(
                || format!("class {}", guess.class),
                |name| format!("{name} ({})", guess.class),
            );
            text.push_str(&format!("  {:5.1} %  {shown}\n", guess.probability * 100.0));
            objects.push(
                json!({ "class": guess.class, "name": name, "probability": guess.probability }),
            );
        }
        images.push(json!({ "image": path.display().to_string(), "guesses": objects }));
    }
    print(
        &text,
        &json!({ "model": args.model, "images": images }),
        json,
    )
}
