"""What is known about models and accelerators without downloading anything: tables, readers."""
