"""The named constructors: tables of sizes, joined with weights."""
