"""Care for collections of images: checking, previewing, rewriting as TFRecords."""
