//! Weights with two names under adapters: an embedding and the head that is tied to it.

use torsh_nn::module::{tied_names, untie, untied_by};
use torsh_nn::{Module, StateDict};
use torsh_tensor::Result;

use super::config::LoraConfig;

/// What names of `peft` begin with.
pub(super) const PREFIX: &str = "base_model.model.";

/// The module of `modules_to_save` that a parameter belongs to.
fn saved_module<'a>(name: &'a str, config: &LoraConfig) -> Option<&'a str> {
    let ends = name.match_indices('.').map(|(at, _)| &name[..at]);
    ends.into_iter().find(|module| config.is_saved(module))
}

/// Takes tied parameters apart where `modules_to_save` has some of their modules, as `peft` does, which trains copies of
/// such modules. With `ensure_weight_tying` all modules of such a parameter are trained as one; `modules_to_save` then has
/// the first of them, and the names of the others' parameters come back.
pub(super) fn part_saved<M: Module>(base: &mut M, config: &mut LoraConfig) -> Result<Vec<String>> {
    let mut others = Vec::new();
    for names in tied_names(&*base) {
        let mut parts: Vec<(Option<String>, Vec<String>)> = Vec::new();
        for name in names {
            let module = saved_module(&name, config).map(str::to_string);
            match parts.iter_mut().find(|(m, _)| *m == module) {
                Some((_, part)) => part.push(name),
                None => parts.push((module, vec![name])),
            }
        }
        if parts.len() < 2 {
            continue;
        }
        let all: Vec<&str> = parts.iter().flat_map(|(_, p)| p).map(|n| &**n).collect();
        if config.ensure_weight_tying {
            let modules: Vec<&str> = all
                .iter()
                .map(|name| name.rsplit_once('.').map_or(*name, |(module, _)| module))
                .collect();
            let first = modules[0].to_string();
            let saved = |module: &str, name: &String| super::config::is_or_ends(module, name);
            config.modules_to_save.retain(|name| {
                saved(&first, name) || !modules.iter().any(|module| saved(module, name))
            });
            if !config.is_saved(&first) {
                config.modules_to_save.push(first);
            }
            others.extend(all[1..].iter().map(|name| name.to_string()));
            continue;
        }
        eprintln!(
            "torsh: {} are one parameter of {}, and modules_to_save takes them apart: ensure_weight_tying trains them as one",
            all.join(" and "),
            base.type_name()
        );
        // What is not trained keeps the parameter.
        parts.sort_by_key(|(module, _)| module.is_some());
        for (_, part) in &parts[1..] {
            untie(base, part)?;
        }
    }
    Ok(others)
}

/// Takes tied parameters apart for which an adapter's file has different tensors.
pub(super) fn part_by_file<M: Module>(base: &mut M, file: &StateDict) -> Result<()> {
    let own: StateDict = file
        .iter()
        .filter_map(|(name, t)| Some((name.strip_prefix(PREFIX)?, t.clone())))
        .collect();
    for parts in untied_by(&*base, &own)? {
        eprintln!(
            "torsh: {} are one parameter of {}, and the adapter has different tensors for them: each keeps its own",
            parts.concat().join(" and "),
            base.type_name()
        );
        for part in &parts[1..] {
            untie(base, part)?;
        }
    }
    Ok(())
}
