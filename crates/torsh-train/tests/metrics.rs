//! Metrics give scikit-learn's numbers, also batch by batch and merged from several workers.
//! `data/metrics.py` wrote the cases.

use serde_json::Value as Json;
use torsh_tensor::{DType, Device, Result, Tensor};
use torsh_train::metrics::{
    Accuracy, Average, AveragePrecision, ConfusionMatrix, F1, FBeta, MeanAbsoluteError,
    MeanSquaredError, Metric, MetricValue, MultiClass, MultiOutput, Normalize, Perplexity,
    Precision, R2, RankingAverage, Recall, RocAuc, TopKAccuracy,
};

fn tensor(json: &Json) -> Tensor {
    let shape: Vec<usize> = serde_json::from_value(json["shape"].clone()).unwrap();
    let data: Vec<f64> = serde_json::from_value(json["data"].clone()).unwrap();
    let dtype = match json["integer"].as_bool().unwrap() {
        true => DType::I64,
        false => DType::F64,
    };
    let t = Tensor::from_slice(&data, [data.len()], DType::F64, Device::Cpu).unwrap();
    t.reshape(&shape).unwrap().to_dtype(dtype).unwrap()
}

fn average(o: &Json) -> Average {
    match o["average"].as_str() {
        Some("binary") => Average::Binary,
        Some("macro") => Average::Macro,
        Some("micro") => Average::Micro,
        Some("weighted") => Average::Weighted,
        _ => Average::None,
    }
}

fn ranking(o: &Json) -> RankingAverage {
    match o.get("average").map(Json::as_str) {
        None | Some(Some("macro")) => RankingAverage::Macro,
        Some(Some("micro")) => RankingAverage::Micro,
        Some(Some(_)) => RankingAverage::Weighted,
        Some(None) => RankingAverage::None,
    }
}

fn multi(o: &Json) -> MultiOutput {
    match o["multioutput"].as_str() {
        Some("raw_values") => MultiOutput::RawValues,
        Some("variance_weighted") => MultiOutput::VarianceWeighted,
        _ => MultiOutput::UniformAverage,
    }
}

fn metric(case: &Json) -> Box<dyn Metric> {
    let o = &case["options"];
    let threshold = o["threshold"].as_f64().unwrap_or(0.5);
    let zero = o["zero_division"].as_f64().unwrap_or(f64::NAN);
    let pos_label = o["pos_label"].as_i64().unwrap_or(1);
    let num_classes = o["num_classes"].as_u64().map(|n| n as usize);
    macro_rules! score {
        ($metric:expr) => {
            Box::new(
                $metric
                    .average(average(o))
                    .zero_division(zero)
                    .threshold(threshold)
                    .pos_label(pos_label)
                    .num_classes(num_classes),
            )
        };
    }
    match case["metric"].as_str().unwrap() {
        "accuracy" => Box::new(Accuracy::new().threshold(threshold)),
        "top_k" => Box::new(TopKAccuracy::new(o["k"].as_u64().unwrap() as usize)),
        "precision" => score!(Precision::new()),
        "recall" => score!(Recall::new()),
        "f1" => score!(F1::new()),
        "fbeta" => score!(FBeta::new(o["beta"].as_f64().unwrap()).unwrap()),
        "confusion" => {
            let normalize = match o["normalize"].as_str() {
                Some("true") => Some(Normalize::True),
                Some("pred") => Some(Normalize::Pred),
                Some(_) => Some(Normalize::All),
                None => None,
            };
            let m = ConfusionMatrix::new().normalize(normalize);
            Box::new(m.num_classes(num_classes))
        }
        "roc_auc" => {
            let multi_class = match o["multi_class"].as_str() {
                Some("ovo") => MultiClass::Ovo,
                _ => MultiClass::Ovr,
            };
            Box::new(RocAuc::new().average(ranking(o)).multi_class(multi_class))
        }
        "average_precision" => Box::new(AveragePrecision::new().average(ranking(o))),
        "mae" => Box::new(MeanAbsoluteError::new().multioutput(multi(o))),
        "mse" => Box::new(MeanSquaredError::new().multioutput(multi(o))),
        "rmse" => Box::new(MeanSquaredError::new().squared(false).multioutput(multi(o))),
        "r2" => Box::new(R2::new().multioutput(multi(o))),
        "perplexity" => Box::new(Perplexity::new()),
        other => panic!("no metric {other}"),
    }
}

fn numbers(value: &MetricValue) -> Vec<f64> {
    match value {
        MetricValue::Scalar(v) => vec![*v],
        MetricValue::PerClass(v) => v.clone(),
        MetricValue::Matrix(rows) => rows.concat(),
    }
}

fn expected(json: &Json) -> Vec<f64> {
    match json {
        Json::Array(items) => items.iter().flat_map(expected).collect(),
        other => vec![other.as_f64().unwrap_or(f64::NAN)],
    }
}

#[track_caller]
fn close(got: &MetricValue, want: &Json, what: &str) {
    let (got, want) = (numbers(got), expected(want));
    assert_eq!(got.len(), want.len(), "{what}: {got:?} is not {want:?}");
    for (g, w) in got.iter().zip(&want) {
        let near = (g - w).abs() <= 1e-12 * w.abs().max(1.0) || (g.is_nan() && w.is_nan());
        assert!(near, "{what}: {got:?} is not {want:?}");
    }
}

fn feed(m: &mut dyn Metric, output: &Tensor, target: &Tensor, part: std::ops::Range<usize>) {
    let cut = |t: &Tensor| t.narrow(0, part.start as i64, part.len() as i64).unwrap();
    m.update(&cut(output), &cut(target)).unwrap();
}

#[test]
fn metrics_are_scikit_learns() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/metrics.json");
    let file: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let array = |i: &Json| tensor(&file["arrays"][i.as_u64().unwrap() as usize]);
    let cases = file["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 631);
    for case in cases {
        let what = format!("{} {}", case["metric"], case["options"]);
        let (output, target) = (array(&case["output"]), array(&case["target"]));
        let n = output.dims()[0];
        let mut whole = metric(case);
        feed(&mut *whole, &output, &target, 0..n);
        close(&whole.compute().unwrap(), &case["expected"], &what);

        let mut first = metric(case);
        feed(&mut *first, &output, &target, 0..n / 3);
        feed(&mut *first, &output, &target, n / 3..n / 2);
        let mut second = metric(case);
        feed(&mut *second, &output, &target, n / 2..n);
        first.merge(&second.state().unwrap()).unwrap();
        close(&first.compute().unwrap(), &case["expected"], &what);

        first.reset();
        assert!(first.compute().is_err(), "{what}");
        first.merge(&whole.state().unwrap()).unwrap();
        close(&first.compute().unwrap(), &case["expected"], &what);
    }
}

#[test]
fn what_does_not_fit_is_an_error() -> Result<()> {
    let t = |v: &[f64]| Tensor::from_data(v, [v.len()]);
    let scores = t(&[0.1, 0.2, 0.7])?.reshape([1, 3])?;
    let said = |e: Result<()>, words: &[&str]| {
        let e = e.unwrap_err().to_string();
        assert!(words.iter().all(|w| e.contains(w)), "{e}");
    };
    let mut accuracy = Accuracy::new();
    said(
        accuracy.update(&scores, &t(&[1.0, 2.0])?),
        &["accuracy", "[1, 3]", "[2]"],
    );
    said(accuracy.update(&scores, &t(&[0.5])?), &["0.5", "no class"]);
    said(accuracy.compute().map(drop), &["accuracy", "no batch"]);
    let mut top = TopKAccuracy::new(1);
    said(top.update(&scores, &t(&[3.0])?), &["class 3", "3 classes"]);
    said(top.update(&scores.mul(f64::NAN)?, &t(&[1.0])?), &["NaN"]);
    let mut f1 = F1::new();
    f1.update(
        &t(&[0.0, 1.0, 1.0])?.to_dtype(DType::I64)?,
        &t(&[0.0, 1.0, 2.0])?,
    )?;
    said(f1.compute().map(drop), &["[0, 1, 2]", "Average::Macro"]);
    let mut auc = RocAuc::new();
    said(
        auc.update(&t(&[0.1, f64::NAN])?, &t(&[0.0, 1.0])?),
        &["NaN"],
    );
    auc.update(&scores.mul(2.0)?, &t(&[1.0])?)?;
    said(auc.compute().map(drop), &["sum to 2", "softmax"]);
    said(auc.update(&t(&[0.1])?, &t(&[0.0])?), &["batches before"]);
    let mut mse = MeanSquaredError::new();
    said(mse.update(&scores, &t(&[1.0])?), &["[1, 3]", "[1]"]);
    mse.update(&scores, &scores)?;
    said(
        mse.update(&t(&[1.0])?, &t(&[1.0])?),
        &["1 outputs", "had 3"],
    );
    said(FBeta::new(-1.0).map(drop), &["beta", "-1"]);
    // A state of another metric changes nothing.
    let before = mse.state()?;
    assert!(mse.merge(&auc.state()?).is_err());
    assert_eq!(mse.state()?, before);
    Ok(())
}

/// scikit-learn's words.
#[test]
fn words_stand_for_averages() -> Result<()> {
    use torsh_tensor::tensor;
    let refused = |result: Result<MetricValue>, words: &str| {
        let e = result.unwrap_err().to_string();
        assert!(
            e.contains("all is not a valid value for ") && e.contains(words),
            "{e}"
        );
    };
    let (output, target) = (tensor![0, 2, 1, 1], tensor![0, 1, 1, 2]);
    let precision = |mut p: Precision| {
        p.update(&output, &target)?;
        p.compute()
    };
    for (word, average) in [
        ("macro", Average::Macro),
        ("micro", Average::Micro),
        ("weighted", Average::Weighted),
        ("none", Average::None),
    ] {
        let named = precision(Precision::new().average(word))?;
        assert_eq!(
            named,
            precision(Precision::new().average(average))?,
            "{word}"
        );
    }
    assert_eq!(precision(Precision::new().average("macro"))?.scalar()?, 0.5);
    refused(
        precision(Precision::new().average("all")),
        "\"binary\", \"macro\", \"micro\", \"weighted\" or \"none\"",
    );

    let scores = tensor![
        [0.6, 0.3, 0.1],
        [0.2, 0.5, 0.3],
        [0.1, 0.3, 0.6],
        [0.3, 0.4, 0.3]
    ];
    let classes = tensor![0, 1, 2, 2];
    let auc = |mut a: RocAuc| {
        a.update(&scores, &classes)?;
        a.compute()
    };
    let ovo = auc(RocAuc::new().multi_class("ovo").average("weighted"))?;
    let same = RocAuc::new()
        .multi_class(MultiClass::Ovo)
        .average(RankingAverage::Weighted);
    assert_eq!(ovo, auc(same)?);
    assert_ne!(ovo, auc(RocAuc::new())?);
    refused(
        auc(RocAuc::new().multi_class("all")),
        "multi_class is \"ovr\" or \"ovo\"",
    );
    refused(auc(RocAuc::new().average("all")), "average is \"macro\"");

    let r2 = |mut r: R2| {
        r.update(
            &tensor![[1.0, 2.0], [2.0, 5.0]],
            &tensor![[1.0, 2.0], [3.0, 4.0]],
        )?;
        r.compute()
    };
    assert_eq!(
        r2(R2::new().multioutput("raw_values"))?,
        MetricValue::PerClass(vec![0.5, 0.5])
    );
    let weighted = r2(R2::new().multioutput("variance_weighted"))?;
    assert_eq!(
        weighted,
        r2(R2::new().multioutput(MultiOutput::VarianceWeighted))?
    );
    refused(
        r2(R2::new().multioutput("all")),
        "\"uniform_average\", \"raw_values\" or \"variance_weighted\"",
    );
    Ok(())
}
