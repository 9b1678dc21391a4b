//! The result of a metric.

use std::fmt;

use torsh_tensor::{Result, TorshError};

/// The value of a metric.
///
/// ```
/// use torsh_train::metrics::MetricValue;
/// let value = MetricValue::PerClass(vec![0.5, 1.0]);
/// assert_eq!(value.per_class()?, [0.5, 1.0]);
/// assert!(value.scalar().is_err());
/// assert_eq!(value.to_string(), "[0.5, 1]");
/// # Ok::<(), torsh_tensor::TorshError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum MetricValue {
    /// One number.
    Scalar(f64),
    /// A number for each class or output.
    PerClass(Vec<f64>),
    /// A table, row by row.
    Matrix(Vec<Vec<f64>>),
}

impl MetricValue {
    fn kind(&self) -> &'static str {
        match self {
            MetricValue::Scalar(_) => "one number",
            MetricValue::PerClass(_) => "a number for each class",
            MetricValue::Matrix(_) => "a table",
        }
    }

    #[cold]
    fn is_no(&self, what: &str) -> TorshError {
        TorshError::invalid(
            "MetricValue",
            format!("the value is {}, not {what}", self.kind()),
        )
    }

    /// Returns the number; an error where there are several.
    ///
    /// ```
    /// use torsh_train::metrics::MetricValue;
    /// assert_eq!(MetricValue::Scalar(0.5).scalar()?, 0.5);
    /// let error = MetricValue::Matrix(vec![]).scalar().unwrap_err();
    /// assert!(error.to_string().contains("the value is a table, not one number"));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn scalar(&self) -> Result<f64> {
        match self {
            MetricValue::Scalar(v) => Ok(*v),
            other => Err(other
                .is_no("one number")
                .with_hint("choose an average other than None, or read per_class() or matrix()")),
        }
    }

    /// Returns the numbers of the classes or outputs; an error for another kind of value.
    ///
    /// ```
    /// use torsh_train::metrics::MetricValue;
    /// assert_eq!(MetricValue::PerClass(vec![0.5, 1.0]).per_class()?, [0.5, 1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn per_class(&self) -> Result<&[f64]> {
        match self {
            MetricValue::PerClass(v) => Ok(v),
            other => Err(other.is_no("a number for each class")),
        }
    }

    /// Returns the rows; an error for another kind of value.
    ///
    /// ```
    /// use torsh_train::metrics::MetricValue;
    /// assert_eq!(MetricValue::Matrix(vec![vec![2.0, 0.0]]).matrix()?, [[2.0, 0.0]]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn matrix(&self) -> Result<&[Vec<f64>]> {
        match self {
            MetricValue::Matrix(v) => Ok(v),
            other => Err(other.is_no("a table")),
        }
    }

    /// Returns the numbers that can be logged as curves: `name`, or `name.0`, `name.1`, .. ; a table has
    /// none.
    ///
    /// ```
    /// use torsh_train::metrics::MetricValue;
    /// let curves = MetricValue::PerClass(vec![0.5, 1.0]).curves("f1");
    /// assert_eq!(curves, [("f1.0".to_string(), 0.5), ("f1.1".to_string(), 1.0)]);
    /// ```
    pub fn curves(&self, name: &str) -> Vec<(String, f64)> {
        match self {
            MetricValue::Scalar(v) => vec![(name.to_string(), *v)],
            MetricValue::PerClass(v) => {
                let numbered = v.iter().enumerate();
                numbered.map(|(i, v)| (format!("{name}.{i}"), *v)).collect()
            }
            MetricValue::Matrix(_) => Vec::new(),
        }
    }
}

impl fmt::Display for MetricValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = |row: &[f64]| {
            let numbers: Vec<String> = row.iter().map(f64::to_string).collect();
            format!("[{}]", numbers.join(", "))
        };
        match self {
            MetricValue::Scalar(v) => v.fmt(f),
            MetricValue::PerClass(v) => f.write_str(&row(v)),
            MetricValue::Matrix(rows) => {
                let rows: Vec<String> = rows.iter().map(|r| row(r)).collect();
                write!(f, "[{}]", rows.join("\n "))
            }
        }
    }
}
