"""The JSON interface of the site: the numbers and cases of the pages, and the OpenAPI document that describes it."""
