"""What a trained model is worth: predictions, accuracies, few-shot, VTAB."""
