//! `torsh classify`

use std::path::Path;
use std::process::ExitCode;

use serde_json::json;
use torsh_hub::{Hub, LoadStateDict};
use torsh_tensor::{Result, TorshError};
use torsh_vision::models::{
    ModelKind, ModelOptions, Weights, WeightsInfo, classify, classify_with, get_model,
    get_model_weights, get_weight, model_kind,
};

use crate::ClassifyArgs;
use crate::output::print;

/// The names of the classes, one on each line.
fn categories(path: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| std::io::Error::new(e.kind(), format!("classify: {}: {e}", path.display())))?;
    // Editors of Windows mark a text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    Ok(text.lines().map(|line| line.trim().to_string()).collect())
}

/// The published weights that `--weights` names: by the name in their enum, their address, or a file that is called as
/// theirs. Without `--weights` the model's default ones.
fn published(args: &ClassifyArgs) -> Result<Option<&'static WeightsInfo>> {
    let of_model = get_model_weights(&args.model).unwrap_or_default();
    let Some(source) = &args.weights else {
        return Ok(of_model
            .first()
            .copied()
            .filter(|_| args.num_classes.is_none()));
    };
    let file = source.rsplit(['/', '\\']).next();
    Ok(match Weights::from(source) {
        Weights::Pretrained(info) => Some(info),
        Weights::Named(name) if name.contains('.') => Some(get_weight(&name)?),
        // A name that no weights have is none of a file either.
        _ if is_name(source) => {
            let name = source;
            let variant = |info: &&&WeightsInfo| match name.as_str() {
                "DEFAULT" => info.is_default(),
                _ => info.variant() == name,
            };
            let found = of_model.iter().find(variant).copied();
            Some(found.ok_or_else(|| {
                let own: Vec<_> = of_model.iter().map(|info| info.variant()).collect();
                let why = format!("{} has no weights {name}", args.model);
                TorshError::invalid("classify", why)
                    .with_hint(format!("it has DEFAULT, {}", own.join(", ")))
            })?)
        }
        _ => of_model
            .iter()
            .copied()
            .find(|info| Some(info.file_name()) == file),
    })
}

/// Whether a text is written as the names of weights are, and is no file.
fn is_name(text: &str) -> bool {
    let of_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    text.chars().all(of_name) && !Path::new(text).exists()
}

/// `torsh classify`
pub(crate) fn run(args: &ClassifyArgs, json: bool) -> Result<ExitCode> {
    let mut options = ModelOptions::default();
    if let Some(classes) = args.num_classes {
        options = options.num_classes(classes);
    }
    let Some(kind) = model_kind(&args.model) else {
        // Says which models there are.
        return get_model(&args.model, options).map(|_| ExitCode::FAILURE);
    };
    if kind != ModelKind::Classification {
        return Err(TorshError::invalid(
            "classify",
            format!("{} is no model that classifies images", args.model),
        ));
    }
    let known = published(args)?;
    if let Some(info) = known
        && info.model() != args.model.to_lowercase()
    {
        let why = format!(
            "{} are weights of {}, not of {}",
            info.name(),
            info.model(),
            args.model
        );
        return Err(TorshError::invalid("classify", why));
    }
    let drawn = args.weights.as_deref() == Some("none");
    match (&args.weights, known) {
        _ if drawn => eprintln!(
            "warning: with --weights none the weights are drawn at random, and the guesses mean nothing"
        ),
        // A file of the user's own, even where it is called as a published one.
        (Some(source), _) if Path::new(source).exists() || known.is_none() => {
            let load = LoadStateDict::new().strip_prefix("module.");
            options = options.weights(Hub::shared()?.load_state_dict(source, load)?);
        }
        (_, Some(info)) => options = options.weights(info),
        (_, None) => {
            let why = format!("there are no published weights of {} to take", args.model);
            let hint =
                "name some with --weights: a file, an address, a folder, a repository, or none";
            return Err(TorshError::invalid("classify", why).with_hint(hint));
        }
    }
    let names = args.categories.as_deref().map(categories).transpose()?;
    let own = known.filter(|_| args.num_classes.is_none() && !drawn);
    let names = names.or_else(|| {
        let categories = own?.categories().iter().map(|name| name.to_string());
        Some(categories.collect())
    });
    let model = get_model(&args.model, options)?;
    let (mut text, mut images) = (String::new(), Vec::new());
    for path in &args.images {
        let image = torsh_vision::load_image(path)?;
        // As the weights were trained, where that is known.
        let classes = match own {
            Some(info) => classify_with(&*model, &image, &info.transforms())?,
            None => classify(&*model, &image)?,
        };
        let guesses = classes.top(args.top);
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
