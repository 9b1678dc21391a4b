//! Metrics by name.

use torsh_tensor::{Result, TorshError};

use crate::metrics::{
    Accuracy, Average, AveragePrecision, F1, MeanAbsoluteError, MeanSquaredError, Metric,
    Perplexity, Precision, R2, Recall, RocAuc, TopKAccuracy,
};

/// The metric of a name: `accuracy`, `top5_accuracy` (any number), `precision`, `recall` and `f1`
/// (of two classes, or of several as `f1_macro`, `f1_micro`, `f1_weighted`), `roc_auc`,
/// `average_precision`, `mae`, `mse`, `rmse`, `r2`, `perplexity`.
///
/// ```
/// use torsh_train::metrics::Metric;
/// use torsh_train::registry::create_metric;
///
/// assert_eq!(create_metric("f1_macro")?.name(), "f1_macro");
/// let error = create_metric("acuracy").err().map(|e| e.to_string());
/// assert!(error.is_some_and(|e| e.contains("no metric `acuracy`")));
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[torsh_tensor::names_caller]
pub fn create_metric(name: &str) -> Result<Box<dyn Metric>> {
    let top = name
        .strip_prefix("top")
        .and_then(|n| n.strip_suffix("_accuracy"));
    if let Some(k) = top.and_then(|k| k.parse().ok()).filter(|k| *k > 0) {
        return Ok(Box::new(TopKAccuracy::new(k)));
    }
    let (base, average) = match name.rsplit_once('_') {
        Some((base, "macro")) => (base, Average::Macro),
        Some((base, "micro")) => (base, Average::Micro),
        Some((base, "weighted")) => (base, Average::Weighted),
        _ => (name, Average::Binary),
    };
    match base {
        "precision" => return Ok(Box::new(Precision::new().average(average).named(name))),
        "recall" => return Ok(Box::new(Recall::new().average(average).named(name))),
        "f1" => return Ok(Box::new(F1::new().average(average).named(name))),
        _ => {}
    }
    Ok(match name {
        "accuracy" => Box::new(Accuracy::new()),
        "roc_auc" => Box::new(RocAuc::new()),
        "average_precision" => Box::new(AveragePrecision::new()),
        "mae" => Box::new(MeanAbsoluteError::new()),
        "mse" => Box::new(MeanSquaredError::new()),
        "rmse" => Box::new(MeanSquaredError::new().squared(false)),
        "r2" => Box::new(R2::new()),
        "perplexity" => Box::new(Perplexity::new()),
        _ => {
            return Err(
                TorshError::invalid("", format!("there is no metric `{name}`")).with_hint(
                    "there are accuracy, top5_accuracy, precision, recall, f1 (also _macro, _micro, _weighted), \
                     roc_auc, average_precision, mae, mse, rmse, r2, perplexity",
                ),
            );
        }
    })
}
