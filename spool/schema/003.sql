-- Version 3: a run keeps the scope that its rows were sent with at first.
ALTER TABLE registration ADD COLUMN scope TEXT;
